"""Test your own training code as several ranks on the stub (guides/testing.md).

`run_ranks` runs a function as the ranks of a job. With pytest, ``@pytest.mark.ranks(2)`` runs a
test so, and the fixture ``ascend_stub`` gives a test of one rank a clean environment::

    from ascend_session.testing import run_ranks

    def test_the_ranks_average():
        assert run_ranks(average, 2, 3.0) == [3.5, 3.5]

Names are loaded when they are first used.
"""

from ascend_session.lazy import late_names

__getattr__, __dir__, __all__ = late_names(globals())
