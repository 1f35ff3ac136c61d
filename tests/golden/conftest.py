"""How golden files are rewritten."""

from tests.cli.conftest import call

__all__ = ["call"]


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="Write what the commands of tests/golden/cases come to now into their files.",
    )
