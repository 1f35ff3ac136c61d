"""Options of torchrun, horovodrun, mpirun and accelerate, and their names here."""

from typing import Any, Dict, List, Sequence

import click

from ascend_session.cli._parameters import ScriptCommand

_RANKS = "Give -n N, the number of ranks on this node."
_NODES = "Give --nnodes N."
_NODE_RANK = "Give --node-rank K."
_HOSTS = (
    "Start `ascend-session launch` on each host, with --nnodes and --node-rank; below Slurm or "
    "MPI, one on each host by srun or mpirun, without them."
)
_MEETING = (
    "On several nodes give --rank-table FILE; on one, the ranks find each other with "
    "--no-rank-table, for which --chief-ip and --chief-port may be given."
)
_LOGS = "The output of each rank is kept in a folder, which --log-dir names."
_SHOW = "Give --show LIST, the ranks whose output is shown; all of it is kept in files."
_ENV = "Give --env NAME=VALUE; what is exported is passed on in any case."
_NOT_NEEDED = "Leave it out: a launch does so in any case."

_ANSWERS = (
    (_RANKS, "-np --np -c --nproc_per_node --nproc-per-node --num_processes --num-proc -N"),
    (_RANKS, "--npernode -npernode --ntasks-per-node"),
    (_NODES, "--num_machines --num-machines"),
    (_NODE_RANK, "--node_rank --machine_rank --machine-rank"),
    (_HOSTS, "--hostfile -hostfile --machinefile -machinefile -H --host -host --hosts"),
    (_HOSTS, "--host-discovery-script --min-np --max-np --deepspeed_hostfile"),
    (_MEETING, "--master_addr --master-addr --main_process_ip --rdzv_endpoint --rdzv-endpoint"),
    (_MEETING, "--master_port --master-port --main_process_port --rdzv_backend --rdzv-backend"),
    ("Give --job-id ID.", "--rdzv_id --rdzv-id --run-id"),
    ("Give --max-restarts N.", "--max_restarts"),
    ("Give --stall-timeout SECONDS.", "--monitor_interval --monitor-interval"),
    ("Give --log-dir FOLDER.", "--log_dir --output-filename -output-filename"),
    (_LOGS, "-r --redirects --redirect"),
    (_SHOW, "-t --tee --local_ranks_filter --local-ranks-filter --role"),
    ("Give --no-python.", "--no_python"),
    (_ENV, "-x -genv -env"),
    ("Give --cwd FOLDER.", "-wdir --wdir -wd"),
    ("Give --bind HOW.", "--bind-to -bind-to --map-by -map-by --rank-by --numa-binding"),
    ("Give --devices LIST.", "--gpu_ids --gpu-ids"),
    ("Give --timestamps.", "--timestamp-output -timestamp-output"),
    (_NOT_NEEDED, "--standalone --tag-output -tag-output --allow-run-as-root --oversubscribe"),
    (_NOT_NEEDED, "--use_env --use-env --multi_gpu --multi-gpu --gloo --mpi"),
)
_BY_OPTION: Dict[str, str] = {name: answer for answer, names in _ANSWERS for name in names.split()}


class LaunchCommand(ScriptCommand):
    """A command that answers options of other launchers with its own."""

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        """Read the arguments, unless there is an option of another launcher before the script."""
        foreign = _find_foreign(args, self.params)
        if foreign:
            raise click.UsageError(f"No such option: {foreign}. {_BY_OPTION[foreign]}", ctx)
        return super().parse_args(ctx, args)


def parse_nodes(text: str) -> int:
    """Read a number of nodes; torchrun also takes a range such as ``1:4``."""
    least, colon, most = text.partition(":")
    if colon and least.isdecimal() and most.isdecimal():
        message = (
            f"{text} is a range, and a job has a fixed number of nodes; write --nnodes {most}."
        )
        raise click.BadParameter(message)
    try:
        return int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a valid integer.") from None


def _find_foreign(args: Sequence[str], parameters: Sequence[click.Parameter]) -> str:
    """Find the first option of another launcher, among the options before the script."""
    takes_value: Dict[str, bool] = {
        name: not getattr(parameter, "is_flag", False)
        for parameter in parameters
        for name in parameter.opts
    }
    rest: Any = iter(args)
    for word in rest:
        name, equals, _ = word.partition("=")
        if not name.startswith("-") or name == "--":
            break
        if name in _BY_OPTION and name not in takes_value:
            return str(name)
        if takes_value.get(name) and not equals:
            next(rest, None)
    return ""
