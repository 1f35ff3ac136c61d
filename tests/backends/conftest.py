"""What the contracts assert is shown as what a test of its own asserts."""

import pytest

pytest.register_assert_rewrite("tests.collective_contract")
