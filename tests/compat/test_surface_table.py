"""The vendor's modules, names and signatures, of both releases, against ours."""

from tests.running import Host


def test_every_name_and_signature_of_the_vendors_package_is_here(programs: Host) -> None:
    ended = programs.run("compat_surface")
    assert ended.lines == ["compared"]
