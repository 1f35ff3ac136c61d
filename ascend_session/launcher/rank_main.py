"""What runs inside a rank, before and after the user's program.

``ascend_session/runner.py`` loads this file by its path and before the program's own folder is on
``sys.path``. It imports nothing but what is built into the interpreter, so that nothing can hide
what it needs and the start costs about nothing. It works from Python 3.6 on.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable, Container, Dict, List, Optional, Type

    Trace = Optional[TracebackType]

RUN_VARIABLE = "ASCEND_SESSION_RUN"
"""Environment variable with the options of ``ascend-session run``, hidden from the program."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# By its path: then neither the working directory nor the interpreter's packages can hide it.
RUNNER = os.path.join(_PACKAGE, "runner.py")
"""The program that runs scripts and modules and records how they fail."""

_BACKEND_VARIABLE = "ASCEND_SESSION_BACKEND"

_SPARE_BYTES = 1 << 20  # are let go when memory may have run out


def main(runner: str) -> None:
    """Run the program that the command line names, and record how it fails.

    Args:
        runner: The file that Python was started with, as in tracebacks.
    """
    rank = RankMain(runner)
    try:
        rank.run()
    except BaseException as failure:
        rank.fail(failure)
        raise


def load_by_path(path: str) -> "Any":
    """Import a file of this package that needs no other; Python caches its compiled code.

    The module does not stay in `sys.modules`, where the program's own of that name may belong.
    """
    folder, name = os.path.split(path[: -len(".py")])
    sys.path.insert(0, folder)
    try:
        return __import__(name)
    finally:
        del sys.path[0]
        sys.modules.pop(name, None)


class RankMain:
    """Runs one program, with what is done before it starts and after it fails.

    Everything is loaded at once: the files may be gone or others when the program fails.
    """

    def __init__(self, runner: str) -> None:
        self._rank_folder = load_by_path(os.path.join(_PACKAGE, "rank_folder.py"))
        self._folder = os.environ.get(self._rank_folder.RANK_FOLDER)
        self._pid = os.getpid()
        self._spare = bytes(_SPARE_BYTES)
        self._vendor = None  # type: Optional[Vendor]
        request = os.environ.pop(RUN_VARIABLE, None)
        # The vendor's packages are replaced by `run`, and in ranks on the stub; to ask the backend
        # for `replaces_vendor`, this file would have to import it.
        is_on_stub = self._folder and os.environ.get(_BACKEND_VARIABLE) == "stub"
        importing = os.path.join(_PACKAGE, "compat", "finder.py")
        if (request is not None or is_on_stub) and os.path.isfile(importing):
            self._vendor = Vendor(self._pid, importing, request)  # an installation may do without
        self._files = {runner, GLUE, main.__code__.co_filename}

    def run(self) -> None:
        """Run the program that the command line names, and let through what it raises."""
        words = sys.argv
        if len(words) < 2 or (words[1] == "-m" and len(words) < 3):
            sys.exit("usage: python runner.py (script | -m module) [arguments]")
        if hasattr(sys, "orig_argv"):
            del sys.orig_argv[-len(words)]
        if self._folder:
            self._rank_folder.watch_stacks(self._folder)
        del words[0]
        functions: Dict[str, Callable[[Any], None]] = {}
        functions["tensorflow.python.util.tf_stack"] = self._hide_frames
        if self._vendor is not None:
            functions.update(self._vendor.begin())
        sys.meta_path.insert(0, AfterImport(functions))
        for name in [name for name in functions if name in sys.modules]:  # by sitecustomize
            functions.pop(name)(sys.modules[name])
        run_program(words, self._note_unreadable)

    def fail(self, error: BaseException) -> None:
        """Record what ends the program, and have it printed without the frames of this package."""
        self._spare = b""
        error.__traceback__ = stripped(error.__traceback__, self._files)
        if self._vendor is not None:
            self._vendor.fail(error)
        failed_rank = self._record(error, self._rank_folder.exit_code_of(error))
        if not isinstance(error, SystemExit):
            last_line = ""
            if failed_rank is not None:
                rank = os.environ.get("RANK_ID", "")
                last_line = f"rank {rank}: stopped, because rank {failed_rank} failed\n"
            print_as_without(self._files, last_line)

    def _hide_frames(self, tf_stack: "Any") -> None:
        """Have TensorFlow leave this package's frames out of the place where an operation was made.

        Its ``StackTraceFilter`` counts for the thread that enters it; others have no such frames.
        """
        files = frozenset(self._files)

        class RunnerFilter(tf_stack.StackTraceFilter):  # type: ignore[misc]
            def get_filtered_filenames(self) -> "Any":
                return files

        RunnerFilter().__enter__()

    def _note_unreadable(self, error: Exception) -> None:
        error.__traceback__ = None
        self._record(error, 2 if isinstance(error, OSError) else 1)

    def _record(self, error: BaseException, code: int) -> "Optional[int]":
        """Record the error; return the rank whose failure it follows from, or None."""
        # A forked child that fails has ended no rank.
        if not code or not self._folder or os.getpid() != self._pid:
            return None
        write = self._rank_folder.write_record  # type: Callable[..., Optional[int]]
        return write(error, self._folder, code, ends_program=True)


class AfterImport:
    """A finder that calls a function with each of some modules, once Python has loaded it.

    Args:
        functions: By the module's full name.
    """

    def __init__(self, functions: "Dict[str, Callable[[Any], None]]") -> None:
        self._functions = functions

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Give what the other finders give; its loader calls the function."""
        function = self._functions.pop(name, None)
        if function is None:
            return None
        finders = [finder for finder in sys.meta_path if finder is not self]  # type: List[Any]
        specs = (finder.find_spec(name, path, target) for finder in finders)
        spec: Any = next((spec for spec in specs if spec is not None), None)
        load = getattr(getattr(spec, "loader", None), "exec_module", None)
        if load is not None:

            def exec_module(module: "Any") -> None:
                del spec.loader.exec_module
                load(module)
                try:
                    function(module)
                except Exception as error:  # of a TensorFlow that nobody has seen yet
                    _tell_user(f"{name}: {type(error).__name__}: {error}")

            spec.loader.exec_module = exec_module
        return spec


GLUE = "sys"
"""File name of the frame below the program: Python says 'sys:1: UserWarning' of what is there."""


def run_program(words: "List[str]", on_unreadable: "Callable[[Exception], None]") -> None:
    """Run a script, a folder, an archive or a module as ``__main__``, as plain Python does.

    Args:
        words: ``sys.argv`` as it is for the program, with ``-m`` and the module's name or with the
            script in front; is changed in place.
        on_unreadable: Takes the reason why a script cannot be read or compiled. Then plain Python
            takes this process over and reports it: it reads files in another way than ``compile``.
    """
    if words[0] == "-m":
        _run_module(words.pop(1))
    else:
        _run_script(words[0], on_unreadable)


def has_own_path() -> bool:
    """Tell whether Python puts the program's folder on ``sys.path``."""
    return not (sys.flags.isolated or getattr(sys.flags, "safe_path", False))


def _run_module(name: str) -> None:
    import runpy

    folder = _working_directory()
    if has_own_path() and folder is not None:
        sys.path.insert(0, folder)
    _new_main()
    _call(runpy._run_module_as_main, name)  # type: ignore[attr-defined]


def _run_script(name: str, on_unreadable: "Callable[[Exception], None]") -> None:
    path = name
    if sys.version_info >= (3, 9) and not os.path.isabs(path):
        path = (_working_directory() or "") + os.sep + path
    if _can_import_from(path):
        import runpy

        sys.path.insert(0, path)
        _new_main()
        _call(runpy._run_module_as_main, "__main__", False)  # type: ignore[attr-defined]
        return
    try:
        code, loader = _compiled(path)
    except Exception as error:
        on_unreadable(error)
        os.execv(sys.executable, [sys.executable] + sys.argv)  # noqa: RUF005  (a list it is)
    if has_own_path():
        sys.path.insert(0, os.path.dirname(os.path.realpath(name)))
    scope = _new_main()
    scope.update(__file__=path, __cached__=None, __loader__=loader)
    _call(exec, code, scope)


def _call(function: "Callable[..., object]", *arguments: "Any") -> None:
    code = compile("function(*arguments)", GLUE, "exec")
    exec(code, {"__name__": GLUE, "function": function, "arguments": arguments})


def _working_directory() -> "Optional[str]":
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _new_main() -> "Dict[str, Any]":
    """Put a module without contents in this one's place; return its dictionary."""
    old = vars(sys.modules["__main__"])
    sys.modules["__main__"] = type(sys)("__main__")
    scope = vars(sys.modules["__main__"])
    if "__annotations__" in old:
        scope["__annotations__"] = {}
    scope["__builtins__"] = old["__builtins__"]
    return scope


def _can_import_from(path: str) -> bool:
    """Tell whether a path is a folder or an archive, by Python's own hooks."""
    for hook in sys.path_hooks:
        try:
            hook(path)
        except ImportError:
            continue
        return True
    return False


def _compiled(path: str) -> "Any":
    """Load the code of a script or of a compiled one; return it with its loader."""
    external = sys.modules["_frozen_importlib_external"]  # type: Any
    with open(path, "rb") as file:
        content = file.read()
    if path.endswith(".pyc") or content[:2] == external.MAGIC_NUMBER[:2]:  # as Python knows it
        loader = external.SourcelessFileLoader("__main__", path)
        return loader.get_code("__main__"), loader
    code = compile(content, path, "exec", 0, True)
    return code, external.SourceFileLoader("__main__", path)


def print_as_without(files: "Container[str]", last_line: str = "") -> None:
    """Have Python print the exception without the outermost frames of these files.

    The program's own ``sys.excepthook`` is called, and is in its place when it is.

    Args:
        files: The files.
        last_line: What is printed below the traceback.
    """
    hook = getattr(sys, "excepthook", sys.__excepthook__)

    def show(kind: "Type[BaseException]", error: BaseException, trace: "Trace") -> None:
        sys.excepthook = hook
        trace = stripped(trace, files)
        error.__traceback__ = sys.last_traceback = trace
        hook(kind, error, trace)
        if last_line and sys.stderr is not None:
            sys.stderr.write(last_line)

    sys.excepthook = show


def stripped(trace: "Trace", files: "Container[str]") -> "Trace":
    """Take away the outermost frames of a traceback, as far as they are of these files."""
    while trace is not None and trace.tb_frame.f_code.co_filename in files:
        trace = trace.tb_next
    return trace


class Vendor:
    """What stands for the vendor's packages in this process, or ends their system.

    Args:
        pid: The process that runs the program.
        importing: The file of `compat.finder`.
        request: The options of `run`, lines ``name=value``; None in a rank of a launch.
    """

    def __init__(self, pid: int, importing: str, request: "Optional[str]") -> None:
        self._pid = pid
        self._options: Dict[str, str] = {}
        self._is_run = request is not None
        for line in (request or "").split("\n"):
            name, _, value = line.partition("=")
            if name:
                self._options[name] = value
        self._importing: Any = load_by_path(importing)
        self._finder: Any = None
        self._has_failed = False

    def begin(self) -> "Dict[str, Callable[[Any], None]]":
        """Install the finder, before the program starts.

        Returns:
            What is to be called after modules were imported, by their names.
        """
        self._finder = self._importing.install(self._options)
        if self._options.get("replaces_vendor", "yes") != "yes":
            return {}
        inherited = self._importing.INHERITED
        # For Pythons that the program starts: by the variable, multiprocessing's by the path.
        old = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = inherited + (os.pathsep + old if old else "")
        sys.path.insert(0, inherited)
        if not self._is_run:
            return {}
        import atexit

        atexit.register(self._finish_if_unused)
        return {"tensorflow.python.client.session": self._finder.note_sessions}

    def fail(self, error: BaseException) -> None:
        """Pass on that the program fails to what ends the vendor's system; never raise."""
        if self._finder is None or os.getpid() != self._pid:
            return
        kinds = AttributeError, ImportError, RuntimeError, ValueError
        is_of_tensorflow = isinstance(error, kinds) and "tensorflow" in sys.modules
        self._has_failed = True
        if not (self._finder.started or self._is_run or is_of_tensorflow):
            return
        try:
            self._importing.run_end().fail(error, self._options)
        except Exception as second:
            _tell_user(f"{type(second).__name__}: {second}")

    def _finish_if_unused(self) -> None:
        if self._finder.started or os.getpid() != self._pid:
            return
        try:
            self._importing.run_end().finish_unused(self._options, self._has_failed)
        except Exception as error:
            _tell_user(f"{type(error).__name__}: {error}")


def _tell_user(text: str) -> None:
    if sys.stderr is not None:
        try:
            sys.stderr.write(f"ascend-session: {text}\n")
        except (OSError, ValueError):
            return
