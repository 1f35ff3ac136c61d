"""The files of a fake host: ``/dev``, ``/proc``, ``/etc``, driver and toolkit.

Source: guides/facts/devices.md#device-nodes, guides/facts/devices.md#hccn,
guides/facts/devices.md#paths-and-versions; ``/proc`` as in proc(5).
"""

import json
import os
import pwd
from pathlib import Path
from typing import Dict, List, Mapping, Sequence

from tests.fake_host.program import Call, Reply, calls_of, end_children, install

__all__ = ["USER", "FakeHost"]

USER = pwd.getpwuid(os.geteuid()).pw_name
"""Whose the processes of a fake host are (proc(5): the owner of the folder)."""

_BOOT_TIME = 1_700_000_000


class FakeHost:
    """A folder that looks like the root of an Ascend host; empty until something is put in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "dev").mkdir(parents=True)
        (root / "etc").mkdir()
        (root / "proc").mkdir()
        (root / "proc" / "stat").write_text(f"cpu  1 2 3 4\nbtime {_BOOT_TIME}\nprocesses 99\n")

    @property
    def environ(self) -> Dict[str, str]:
        """The environment in which this host is looked at, with an empty PATH."""
        return {"ASCEND_SESSION_HOST_ROOT": str(self.root), "PATH": ""}

    def write(self, path: str, text: str) -> Path:
        """Writes a file, given by its path on the host."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def nodes(self, ids: Sequence[int], control: bool = True, virtual: bool = False) -> None:
        """Makes device nodes (B1)."""
        prefix = "vdavinci" if virtual else "davinci"
        names = [f"{prefix}{number}" for number in ids]
        # B1: all three control nodes must be present.
        names += ["davinci_manager", "devmm_svm", "hisi_hdc"] if control else []
        for name in names:
            (self.root / "dev" / name).touch()

    def process(
        self, pid: int, command: str, devices: Sequence[int] = (), seconds: float = 60.0
    ) -> None:
        """Makes a process that has the devices open, begun so long after the host (proc(5))."""
        folder = self.root / "proc" / str(pid)
        (folder / "fd").mkdir(parents=True)
        words = command.split()
        (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
        (folder / "comm").write_text(words[0][:15] + "\n")
        ticks = int(seconds * os.sysconf("SC_CLK_TCK"))
        # The name may have blanks and parentheses; the start is field 22.
        (folder / "stat").write_text(f"{pid} (py (x) 3) S {'0 ' * 18}{ticks} 0 0\n")
        targets = ["/dev/null", "socket:[4711]", "/dev/davinci_manager"]
        for number, target in enumerate(targets + [f"/dev/davinci{n}" for n in devices]):
            (folder / "fd" / str(number)).symlink_to(target)

    def begun(self, seconds: float = 60.0) -> float:
        """When such a process began, in seconds since 1970."""
        return _BOOT_TIME + seconds

    def hccn_conf(self, entries: Mapping[str, str]) -> None:
        """Writes ``/etc/hccn.conf`` (A8: ``key_N=value``)."""
        self.write("etc/hccn.conf", "".join(f"{key}={value}\n" for key, value in entries.items()))

    def driver(self, version: str = "24.1.rc2", inner: str = "V100R001C18SPC001B233") -> None:
        """Installs a driver's and a firmware's version file (B4)."""
        text = f"Version={version}\nascendhal_version=7.35.23\nInnerversion={inner}\n"
        self.write("usr/local/Ascend/driver/version.info", text)
        self.write("usr/local/Ascend/firmware/version.info", "Version=7.1.0.6.220\n")

    def toolkit(
        self, version: str = "8.0.RC2", place: str = "usr/local/Ascend/ascend-toolkit"
    ) -> None:
        """Installs a toolkit's version file, with the link ``latest`` (B4)."""
        self.write(
            f"{place}/{version}/aarch64-linux/ascend_toolkit_install.info",
            f"package_name=Ascend-cann-toolkit\nversion={version}\n"
            "innerversion=V100R001C18SPC001B251\narch=aarch64\nos=linux\n",
        )
        latest = self.root / place / "latest"
        if not latest.is_symlink():
            latest.symlink_to(version)

    def set_env(self, names: Sequence[str]) -> Path:
        """Installs the toolkit's ``set_env.sh`` (B4), which exports these variables."""
        lines = [f"export {name}=/somewhere/${{{name}}}\n" for name in names]
        text = "# Copyright\nif [ -d x ]; then :; fi\n" + "".join(lines)
        return self.write("usr/local/Ascend/ascend-toolkit/set_env.sh", text)

    def aoe_ini(self, tuners: str = "8") -> Path:
        """Installs AOE's own configuration (guides/facts/option_files.md#aoe_config_file).

        The manual of AOE, "Configuration File", has it below tools/aoe/conf of the toolkit.
        """
        text = f"[aoe]\n# parallel\nWORK_PATH = ./\nTUNING_PARALLEL_NUM = {tuners}\nRUN_LOOP = 10\n"
        return self.write("usr/local/Ascend/ascend-toolkit/latest/tools/aoe/conf/aoe.ini", text)

    def numa(self, cpus: Sequence[str], buses: Mapping[str, int]) -> None:
        """Tells the CPUs of each NUMA node, and the node of each PCI device (the kernel's sysfs).

        The kernel writes PCI addresses in small letters, ``npu-smi`` in capitals (B2).
        """
        for node, text in enumerate(cpus):
            self.write(f"sys/devices/system/node/node{node}/cpulist", f"{text}\n")
        for bus, node in buses.items():
            self.write(f"sys/bus/pci/devices/{bus.lower()}/numa_node", f"{node}\n")

    def cores(self, cores: Sequence[Sequence[int]]) -> None:
        """Tells which CPUs are one core (the kernel's sysfs)."""
        for core in cores:
            text = ",".join(map(str, core))
            for cpu in core:
                self.write(f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list", text)

    def live_proc(self) -> None:
        """Makes ``/proc`` the real one, which shows who has this host's nodes open."""
        (self.root / "proc" / "stat").unlink()
        (self.root / "proc").rmdir()
        (self.root / "proc").symlink_to("/proc")

    def operators(self, names: Sequence[str]) -> None:
        """Installs the list of supported operators (npu_ops_identifier.cc, the new structure)."""
        known = {name: {"isGray": False, "isHeavy": False} for name in names}
        path = "usr/local/Ascend/opp/built-in/framework/tensorflow/npu_supported_ops.json"
        self.write(path, json.dumps(known))

    def npu_smi(self, answers: Mapping[str, Reply]) -> Path:
        """Installs ``npu-smi``, where the driver's installer puts it."""
        return install(self._npu_smi, answers)

    def hccn_tool(self, answers: Mapping[str, Reply]) -> Path:
        """Installs ``hccn_tool`` (A8: often not on PATH)."""
        return install(self._hccn_tool, answers)

    def calls(self) -> List[Call]:
        """How both programs were called."""
        return calls_of(self._npu_smi) + calls_of(self._hccn_tool)

    def close(self) -> None:
        """Ends what the programs left behind."""
        end_children(self._npu_smi)
        end_children(self._hccn_tool)

    @property
    def _npu_smi(self) -> Path:
        return self.root / "usr/local/bin/npu-smi"

    @property
    def _hccn_tool(self) -> Path:
        return self.root / "usr/local/Ascend/driver/tools/hccn_tool"
