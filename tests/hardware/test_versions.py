"""Version files of driver, firmware and toolkit: guides/facts/devices.md#paths-and-versions."""

from typing import Dict, List

import pytest

from ascend_session.hardware.installation import Component, Versions, read_versions
from tests.fake_host import FakeHost


def read(host: FakeHost, **variables: str) -> Versions:
    return read_versions(variables, str(host.root))


def toolkits(versions: Versions) -> List[str]:
    return [toolkit.version for toolkit in versions.toolkits]


def test_an_empty_host_has_nothing(host: FakeHost) -> None:
    assert read(host) == Versions(None, None, (), ())


def test_driver_and_firmware(host: FakeHost) -> None:
    host.driver("24.1.rc2", "V100R001C18SPC001B233")
    found = read(host)
    assert found.driver == Component(
        "24.1.rc2", "V100R001C18SPC001B233", "/usr/local/Ascend/driver/version.info"
    )
    assert found.firmware == Component(
        "7.1.0.6.220", None, "/usr/local/Ascend/firmware/version.info"
    )


def test_the_other_place_of_the_driver(host: FakeHost) -> None:
    host.write("var/davinci/driver/version.info", "Version=20.2.2.spc001\n")
    driver = read(host).driver
    assert driver == Component("20.2.2.spc001", None, "/var/davinci/driver/version.info")


def test_the_installer_says_where_the_driver_is(host: FakeHost) -> None:
    host.driver("23.0.0")
    host.write("etc/ascend_install.info", "Driver_Install_Path_Param=/opt/Ascend\n")
    host.write("opt/Ascend/driver/version.info", "Version=24.1.rc1\n")
    driver = read(host).driver
    assert driver is not None
    assert (driver.version, driver.path) == ("24.1.rc1", "/opt/Ascend/driver/version.info")


def test_the_package_has_the_drivers_version_if_it_has_one(host: FakeHost) -> None:
    host.write(
        "usr/local/Ascend/driver/version.info", "Version=7.35.23\npackage_version=26.0.rc1\n"
    )
    host.write("usr/local/Ascend/firmware/version.info", "Version=7.7.0.1\npackage_version=25.0\n")
    found = read(host)
    assert found.driver is not None
    assert found.firmware is not None
    assert (found.driver.version, found.firmware.version) == ("26.0.rc1", "7.7.0.1")


@pytest.mark.parametrize(
    ("status", "notes"),
    [
        ("Driver_Install_Status=complete\n", 0),
        ("UserName=HwHiAiUser\n", 0),
        ("Driver_Install_Status=failed\n", 1),
    ],
)
def test_an_incomplete_installation_is_a_note(host: FakeHost, status: str, notes: int) -> None:
    host.write("etc/ascend_install.info", status)
    found = read(host).notes
    assert len(found) == notes
    assert all("Driver_Install_Status=failed" in note for note in found)


@pytest.mark.parametrize("text", ["", "\x00\x01", "Version=\n", "Version 24\n", "x" * 200000])
def test_a_file_without_a_version_is_none(host: FakeHost, text: str) -> None:
    host.write("usr/local/Ascend/driver/version.info", text)
    assert read(host).driver is None


def test_toolkits_are_found_where_they_are_installed(host: FakeHost) -> None:
    host.toolkit("8.0.RC2")
    host.write(
        "usr/local/Ascend/cann-8.5.0/x86_64-linux/ascend_toolkit_install.info", "version=8.5"
    )
    found = read(host)
    assert toolkits(found) == ["8.0.RC2", "8.5"]
    assert found.toolkits[0] == Component(
        "8.0.RC2",
        "V100R001C18SPC001B251",
        "/usr/local/Ascend/ascend-toolkit/8.0.RC2/aarch64-linux/ascend_toolkit_install.info",
    )


def test_the_environments_toolkit_comes_first_and_once(host: FakeHost) -> None:
    host.toolkit("8.0.RC2")
    host.toolkit("7.0.0", place="opt/cann")
    found = read(host, ASCEND_TOOLKIT_HOME="/opt/cann/latest", ASCEND_HOME_PATH="/opt/cann/7.0.0")
    assert toolkits(found) == ["7.0.0", "8.0.RC2"]
    assert found.notes == ()


def test_a_path_may_be_that_of_the_folder_that_plays_the_host(host: FakeHost) -> None:
    host.toolkit("7.0.0", place="opt/cann")
    found = read(host, ASCEND_HOME_PATH=str(host.root / "opt/cann/latest"))
    assert toolkits(found) == ["7.0.0"]
    assert found.toolkits[0].path is not None
    assert found.toolkits[0].path.startswith("/opt/cann/7.0.0/")


@pytest.mark.parametrize("variables", [{"ASCEND_HOME_PATH": "/gone"}, {"ASCEND_HOME_PATH": "["}])
def test_a_variable_that_leads_nowhere_is_a_note(host: FakeHost, variables: Dict[str, str]) -> None:
    (note,) = read(host, **variables).notes
    assert f"ASCEND_HOME_PATH is {variables['ASCEND_HOME_PATH']!r}" in note


def test_a_folder_with_brackets_in_its_name_is_found(host: FakeHost) -> None:
    host.toolkit("8.0.RC2", place="opt/cann[8]")
    found = read(host, ASCEND_TOOLKIT_HOME="/opt/cann[8]/latest")
    assert toolkits(found) == ["8.0.RC2"]
    assert found.notes == ()
