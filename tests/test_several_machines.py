"""The chains of the guides on several machines and on clusters, each up to the plan of each launch.

Servers are made up: two with eight devices of an A2 each. ``ssh``, ``srun`` and the others run
their command here, on the server that they are told, in the variables that real ones were seen to
set. Tables are made, merged and read; a launch is planned (``--dry-run``), for nothing could run.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping

import pytest
import yaml

from ascend_session.cluster.rank_table import RankTable
from tests.fake_host import FakeHost, a2_chips, npu_smi_answers
from tests.schedulers.situations import recorded

HOME = Path(__file__).resolve().parents[1]
GUIDES = [HOME / "ascend_session" / "guides" / f"{n}.md" for n in ("several_machines", "clusters")]
NODES = ("node-a", "node-b")
DEVICES = 8
SECONDS = 300

# The program that the scripts call: launches are planned, and the plan is kept.
_OURS = """#!/bin/sh
if [ "$1" = launch ]; then
    shift
    exec "{python}" -m ascend_session.cli launch --dry-run --json "$@" > "{plans}/$NODE.json"
fi
exec "{python}" -m ascend_session.cli "$@"
"""
_ON = 'export NODE="$node" ASCEND_SESSION_HOST_ROOT="{hosts}/$node"\n'
_PROGRAMS = {
    "ssh": '#!/bin/sh\n[ "$1" = -tt ] && shift\nnode=$1\nshift\n' + _ON + 'exec sh -c "$*"\n',
    "scp": '#!/bin/sh\n[ "$1" = -q ] && shift\nfor last; do :; done\ncp "$1" "$2" "${{last#*:}}"\n',
    "scontrol": "#!/bin/sh\necho node-a\necho node-b\n",
    "srun": """#!/bin/sh
nodes="node-a node-b"
while [ "${{1#--}}" != "$1" ]; do
    case "$1" in --nodelist=*) nodes=${{1#*=}} ;; esac
    shift
done
number=0
for node in $nodes; do
    ( . "{folder}/step.sh"
      export SLURM_PROCID=$number SLURM_NODEID=$number SLURMD_NODENAME=$node
      """ + _ON + """      exec "$@" ) || exit
    number=$((number + 1))
done
""",
    "mpirun": """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do
    case "$1" in --host) nodes=$(echo "$2" | tr , " ") ;; esac
    shift 2
done
number=0
for node in $nodes; do
    ( . "{folder}/mpi.sh"
      export OMPI_COMM_WORLD_RANK=$number PMIX_RANK=$number
      """ + _ON + """      exec "$@" ) || exit
    number=$((number + 1))
done
""",
}  # fmt: skip


class Site:
    """Two servers, the programs that reach them, and the plans of the launches there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job = folder / "job"
        for name in ("bin", "plans", "job", "here"):
            (folder / name).mkdir()
        self.hosts: Dict[str, FakeHost] = {}
        for number, node in enumerate(NODES):
            host = self.hosts[node] = FakeHost(folder / "hosts" / node)
            host.nodes(range(DEVICES))
            host.npu_smi(npu_smi_answers("910B", a2_chips(DEVICES), ()))
            first = 1 + DEVICES * number
            host.hccn_conf({f"address_{n}": f"10.1.0.{first + n}" for n in range(DEVICES)})
        places = {"hosts": folder / "hosts", "plans": folder / "plans", "folder": folder}
        for name, text in {"ascend-session": _OURS, **_PROGRAMS}.items():
            program = folder / "bin" / name
            program.write_text(text.format(python=sys.executable, **places))
            program.chmod(0o755)
        write_variables(folder / "step.sh", "step, one task a node")
        mpi = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
        mpi.update(OMPI_COMM_WORLD_LOCAL_SIZE="1", OMPI_COMM_WORLD_NODE_RANK="0")
        write_variables(folder / "mpi.sh", "mpirun", **mpi)
        (folder / "here" / "train.py").write_text("print('here')\n")
        (folder / "job" / "train.py").write_text("print('here')\n")

    def run(self, text: str, **variables: str) -> str:
        """Runs a script; what it says."""
        script = self.folder / "here" / "script.sh"
        script.write_text(text.replace("/job", str(self.job)))
        done = subprocess.run(
            ["bash", str(script)],
            cwd=str(script.parent),
            env=self.environ(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def environ(self, **variables: str) -> Dict[str, str]:
        """An environment without schedulers, in which the programs are found."""
        kept = {n: v for n, v in os.environ.items() if n in ("HOME", "LANG", "LD_LIBRARY_PATH")}
        path = f"{self.folder / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"
        return {**kept, "PATH": path, "PYTHONPATH": str(HOME), **variables}

    def plans(self) -> List[Dict[str, Any]]:
        """The plan of the launch on each node."""
        return [json.loads((self.folder / "plans" / f"{node}.json").read_text()) for node in NODES]

    def close(self) -> None:
        for host in self.hosts.values():
            host.close()


def write_variables(file: Path, situation: str, **others: str) -> None:
    variables: Mapping[str, str] = {**recorded(situation), **others}
    file.write_text("".join(f"export {name}='{value}'\n" for name, value in variables.items()))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def block(name: str) -> str:
    """The file of that name in the guides."""
    text = "".join(guide.read_text(encoding="utf-8") for guide in GUIDES)
    blocks = re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    [found] = [each for each in blocks if re.match(rf"(#!.*\n)?# {re.escape(name)}\n", each)]
    return str(found)


def check_plans(plans: List[Dict[str, Any]], table: Path) -> None:
    """All sixteen ranks are one job, each on the device that the table gives it."""
    found = RankTable.read(str(table))
    found.check("A2")
    assert [str(device.device_ip[0]) for device in found.devices] == [
        f"10.1.0.{number + 1}" for number in range(2 * DEVICES)
    ]
    ranks = [rank for plan in plans for rank in plan["ranks"]]
    assert [rank["rank"] for rank in ranks] == list(range(2 * DEVICES))
    assert [rank["physical_id"] for rank in ranks] == [int(d.device_id) for d in found.devices]
    assert [plan["node"] for plan in plans] == [0, 1]
    assert {plan["backend"] for plan in plans} == {"npu"}
    assert len({plan["job_id"] for plan in plans}) == 1
    for rank in ranks:
        assert rank["changed"]["RANK_SIZE"] == "16"
        assert rank["changed"]["RANK_TABLE_FILE"] == str(table)


def test_two_servers_by_ssh(site: Site) -> None:
    said = site.run(block("two_servers.sh"))
    assert "node-a has ranks 0-7 and node-b has ranks 8-15." in said
    check_plans(site.plans(), site.job / "hccl.json")


def test_a_batch_script_of_slurm(site: Site) -> None:
    said = site.run(block("job.sbatch"), SLURM_JOB_ID="7", SLURM_JOB_NODELIST="node-[a-b]")
    assert "node-a has ranks 0-7 and node-b has ranks 8-15." in said
    check_plans(site.plans(), site.folder / "here" / "tables-7-0" / "hccl.json")


def test_open_mpi(site: Site) -> None:
    site.run(block("two_servers_mpi.sh"))
    check_plans(site.plans(), site.job / "hccl.json")


def test_pods_of_volcano(site: Site) -> None:
    table, job = yaml.safe_load_all(block("pods.yaml"))
    assert table["metadata"]["name"] == f"rings-config-{job['metadata']['name']}"
    [task] = job["spec"]["tasks"]
    pod = task["template"]["spec"]
    [container], [variable] = pod["containers"], pod["containers"][0]["env"]
    mounts_of = {mount["name"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert set(mounts_of) == set(volumes)
    assert volumes["table"]["configMap"]["name"] == table["metadata"]["name"]
    mount = mounts_of["table"]
    assert container["workingDir"] == mounts_of["job"]["mountPath"]
    assert container["resources"]["limits"] == container["resources"]["requests"]
    grace = container["command"][container["command"].index("--grace") + 1]
    assert int(grace) < pod["terminationGracePeriodSeconds"]
    assert (task["replicas"], job["spec"]["minAvailable"]) == (len(NODES), len(NODES))
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "status.hostIP"
    addresses = [f"198.51.100.{number + 1}" for number in range(len(NODES))]
    completed = RankTable.build(
        {
            address: {n: f"10.1.0.{1 + DEVICES * number + n}" for n in range(DEVICES)}
            for number, address in enumerate(addresses)
        },
        family="A2",
    )
    mounts = []
    for node, address in zip(NODES, addresses):
        host = site.hosts[node]
        [(name, text)] = table["data"].items()
        mounted = host.write(f"{mount['mountPath']}/{name}", text)
        pod_variables = {variable["name"]: address, "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
        pod_variables.update(NODE=node, ASCEND_SESSION_HOST_ROOT=str(host.root))
        early = start_pod(site, container, **pod_variables)
        assert early.returncode != 0
        assert "'initializing'" in early.stderr
        mounted.write_text(completed.text())
        done = start_pod(site, container, **pod_variables)
        assert done.returncode == 0, done.stderr
        mounts.append(str(mounted))
    plans = site.plans()
    assert [rank["rank"] for plan in plans for rank in plan["ranks"]] == list(range(2 * DEVICES))
    assert len({plan["job_id"] for plan in plans}) == 1
    for plan, path in zip(plans, mounts):
        assert {rank["changed"]["RANK_TABLE_FILE"] for rank in plan["ranks"]} == {path}


def start_pod(
    site: Site, container: Mapping[str, Any], **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Runs the container's command."""
    return subprocess.run(
        container["command"],
        cwd=str(site.job),
        env=site.environ(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
