"""AscendConfig: all options, checked together, with conversions to and from other forms."""

import sys
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

from ascend_session.config.entry import FileStore, adapter_part, flatten, unflatten
from ascend_session.config.files import from_file
from ascend_session.config.model import ConfigPart
from ascend_session.config.option import adapter_options
from ascend_session.config.options import AdapterOptions
from ascend_session.config.overlay import overlay_options
from ascend_session.config.proto import build_proto, from_config_proto
from ascend_session.config.rules import refusal_of, validate, validate_host
from ascend_session.config.tuning import TUNING_DETAILS, mode_number
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding


class AscendConfig(AdapterOptions):
    """Every option of the Ascend adapter, under the vendor's own names.

    Options that are not given stay unset: they are not written, so the adapter's defaults hold.
    ``ascend-session options NAME`` prints what an option does, takes and depends on.

    Options that name a file take its path, or its content as an object of
    `ascend_session.option_files`. The file is written when a system opens on devices, and by
    `to_config_proto` and `to_run_config_kwargs`.

    Example:
        >>> AscendConfig(precision_mode="allow_mix_precision").parameter_map()
        {'precision_mode': 'allow_mix_precision'}

    Raises:
        ConfigError: On unknown names, wrong types, values that are not allowed, and sets of
            options that the adapter aborts on, refuses or silently misreads; all at once.

    Warns:
        AscendConfigWarning: For options that are accepted but do not do what they say.
    """

    if not TYPE_CHECKING:

        def __init__(__self, *args: Any, **values: Any) -> None:  # noqa: N805
            super().__init__(*args, **values)
            validate(__self.values())

    @classmethod
    def _refusal(cls, problems: Sequence[Finding], values: Dict[str, Any]) -> ConfigError:
        return refusal_of(cls, problems, values)

    def values(self) -> Dict[str, Any]:
        """Return the options that are set: ``{vendor key or NPURunConfig keyword: value}``."""
        return flatten(self)

    def parameter_map(self) -> Dict[str, Any]:
        """Return the content of the NpuOptimizer entry: ordered ``{key: str, int or bool}``.

        Needs no TensorFlow, and writes no file: an option file given as an object appears as the
        path that it will get. `to_config_proto` writes the same values into a proto.
        """
        return adapter_part(self)

    def replace(self, **changes: Any) -> "AscendConfig":
        """Return a checked copy with other values; None unsets an option.

        Raises:
            ConfigError: As from the constructor.
        """
        return type(self)(**{**self.given(), **changes})

    def for_tuning(self, mode: str = "operator", work_path: Optional[str] = None) -> "AscendConfig":
        """Return a copy with which AOE can tune.

        ``aoe_mode`` is set, static_memory_policy is 0, and profiling_config is left out, as the
        manual of AOE asks for; everything else stays. ``AoePlan`` says what else a tuning run
        needs.

        Args:
            mode: What is tuned: ``"operator"``, ``"subgraph"`` or ``"gradient"``, or the number
                that the manual has for it: ``"2"``, ``"1"``, ``"4"``.
            work_path: Existing folder for AOE's files; None keeps that of this configuration,
                which is the working directory by default.

        Raises:
            ConfigError: For another mode, and as from the constructor.
        """
        changes: Dict[str, Any] = {
            "aoe_mode": mode_number(mode),
            "memory_config.static_memory_policy": 0,
            "profiling_config": None,
        }
        if work_path is not None:
            changes["work_path"] = work_path
        return overlay_options(self, changes)

    def for_verifying(self, mode: Optional[str] = None) -> "AscendConfig":
        """Return a copy for a run that shows the effect of tuning.

        Tuning options are removed. After operator tuning, op_compiler_cache_mode is ``"force"``,
        because the cache still has the untuned operators; use it for one run only, since it
        compiles everything again. The tuned repository is not an option; the run finds it as the
        tuning run did, see `ascend_session.aoe.run`.

        Args:
            mode: What was tuned, as in `for_tuning`; None means the ``aoe_mode`` of this
                configuration, and operators if it has none.

        Raises:
            ConfigError: For another mode, and as from the constructor.
        """
        number = mode_number(self.aoe_mode or "operator" if mode is None else mode)
        changes: Dict[str, Any] = dict.fromkeys(("aoe_mode", *TUNING_DETAILS))
        if number == mode_number("operator"):
            changes["op_compiler_cache_mode"] = "force"
        return self.replace(**changes)

    @classmethod
    def from_parameter_map(cls, parameters: Mapping[str, Any]) -> "AscendConfig":
        """Read flat vendor keys, as they stand in an NpuOptimizer entry.

        Args:
            parameters: ``{key: value}``; values as `parameter_map` returns them.

        Raises:
            ConfigError: On keys that the adapter does not read, and as from the constructor.
        """
        return unflatten(cls, parameters)

    def to_config_proto(self, base: Any = None, *, allow_soft_placement: bool = True) -> Any:
        """Build a ``tf.ConfigProto`` with exactly one NpuOptimizer entry.

        Files given as objects are written below ``ASCEND_WORK_PATH`` or the working directory,
        because the entry names their paths.

        Args:
            base: A ``tf.ConfigProto`` to start from; copied, never changed. None starts from
                ``session_config``, if that was given, else from an empty one.
            allow_soft_placement: Value in the proto; all samples of the adapter have True.

        Returns:
            A new ``tf.ConfigProto``; rewriter options as the vendor's samples have them.

        Raises:
            ConfigError: If ``base`` has an entry that is damaged, contradicts this config, or
                together with it breaks a rule.

        Warns:
            AscendConfigWarning: Where ``base`` sets rewriter options to something else.
        """
        return build_proto(self, base, FileStore(), allow_soft_placement).proto

    @classmethod
    def from_config_proto(cls, proto: Any) -> "AscendConfig":
        """Read the NpuOptimizer entry of a ``tf.ConfigProto``.

        Raises:
            ConfigError: On an entry under a wrong name, a second entry, a value in a protobuf
                field that the adapter does not read, and as from the constructor.
        """
        return from_config_proto(cls, proto)

    @classmethod
    def from_file(cls, path: Any) -> "AscendConfig":
        """Read a YAML (``.yaml``, ``.yml``) or JSON file with the constructor's names.

        Raises:
            ConfigError: If the file cannot be read or parsed, and as from the constructor; the
                message names file and line.
        """
        return from_file(cls, path)

    def check_host(self, environ: Mapping[str, str]) -> None:
        """Check what depends on this machine: paths, files, and variables that conflict.

        Files that options point to are read as the vendor's parsers read them, if they are there.

        Args:
            environ: The environment to check against, usually ``os.environ``.

        Raises:
            ConfigError: With all problems at once.

        Warns:
            AscendConfigWarning: For what the environment makes ineffective, for what GE skips in
                a file without telling, and for files that cannot be read here.
        """
        validate_host(self.values(), environ)

    def to_run_config_kwargs(self) -> Dict[str, Any]:
        """Return arguments for the vendor's ``NPURunConfig``; write files like `to_config_proto`.

        Raises:
            ConfigError: For options that NPURunConfig has no argument for, or ruins.
        """
        raw_only = {option.name for option in adapter_options(type(self)) if option.raw_only}
        problems = [
            Finding(
                ERROR, f"{name}={value!r}: NPURunConfig has no argument of this name.", option=name
            )
            for name, value in self.given().items()
            if name in raw_only
        ]
        problems += find_ruined_options(self.given())
        if problems:
            raise ConfigError.from_problems(problems, "what NPURunConfig can be given")
        stored = FileStore().store(self)
        return {name: _argument(name, value) for name, value in stored.given().items()}


def find_ruined_options(given: Mapping[str, Any]) -> List[Finding]:
    """Report options that NPURunConfig accepts and NPUEstimator then breaks."""
    if "compress_weight_conf" not in given:
        return []
    return [
        Finding(
            ERROR,
            "compress_weight_conf through NPURunConfig aborts the process: NPUEstimator always "
            "writes enable_compress_weight beside it.",
            "Use a raw session, with to_config_proto().",
            option="compress_weight_conf",
        )
    ]


def _argument(name: str, value: Any) -> Any:
    """Return an argument of NPURunConfig; a part becomes the vendor's own class if that is loaded.

    The vendor's package is not imported here; whoever calls NPURunConfig has imported it. Source:
    npu_config.py; guides/facts/adapter.md#npurunconfig-and-npuestimator.
    """
    if name == "insert_op_file":
        return value.encode()  # NPUEstimator assigns it to a bytes field as it is
    module = sys.modules.get("npu_bridge.estimator.npu.npu_config")
    vendor = getattr(module, type(value).__name__, None)
    if not isinstance(value, ConfigPart) or vendor is None:
        return value
    arguments = {inner: _argument(inner, each) for inner, each in value.given().items()}
    if type(value).__name__ == "DynamicInputConfig":
        # Four mandatory arguments; one None and NPUEstimator drops all of them.
        for option in adapter_options(type(value)):
            arguments.setdefault(option.name, option.adapter)
    return vendor(**arguments)
