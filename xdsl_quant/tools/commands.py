"""The command line of `xdsl-quant`: a table of commands and a table of their options."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

from xdsl_quant import __version__
from xdsl_quant.kernel_set import KernelSet
from xdsl_quant.rounding_mode import (
    NanResult,
    RoundingMode,
    ScaleRounding,
    ZeroPointOrder,
)

_PROGRAM = "xdsl-quant"


class Command(NamedTuple):
    """A command of `xdsl-quant`."""

    summary: str
    """Line in the list of commands."""

    description: str
    """Beginning of the help of the command."""

    arguments: str
    """
    First words of lines of `_ARGUMENTS`. `!` marks a required option, `|` joins options of
    which exactly one is required.
    """

    examples: Sequence[str]
    """Arguments of three calls."""

    libraries: Sequence[str] = ()
    """Modules to import before the module of the command."""


SORT_NAMES = (
    *("order", "name", "op", "storage", "scale", "zero-point", "bytes", "at-bounds"),
)

_MODEL_OPTIONS = "--entry -p --shape --static --constant"
_ROUNDING = "--rounding-mode --zero-point-order --nan"

COMMANDS: Mapping[str, Command] = {
    "quantize": Command(
        "quantize a float model with samples",
        "Quantize a model with samples, write .mlir, .onnx or .tflite, and print the\n"
        "error of each kernel. Recipes: dynamic-range, int16x8, int4-weights, int8,\n"
        "int8-weights, mixed, int2-blocks-32, int4-blocks-32 (both also 64, 128, 256).",
        "MODEL --data! -o! --recipe --target --budget --test-data --labels "
        "--data-labels --report --json --times --checkpoint "
        f"{_MODEL_OPTIONS} --no-progress",
        (
            "model.tflite --data x.npz -o quantized.tflite",
            "model.mlir --data x.npy --report r.html -o int8.mlir",
            "model.mlir --data x.npy --recipe mixed --json - -o m.mlir",
        ),
    ),
    "calibrate": Command(
        "record the ranges of the values of a model",
        "Run a model on samples and write the ranges of its values to a JSON file for\n"
        "the pass quant-import-stats. Observers: min-max, moving-average=0.9, mse=8,\n"
        "percentile=99.99, entropy=8; for symmetric types 'mse=8,symmetric'.",
        "MODEL --data|--input -o! --observer --batch-size --whole --axis --report "
        f"--types --checkpoint {_MODEL_OPTIONS} --no-progress",
        (
            "model.mlir --data x.npz -o stats.json",
            "model.mlir --data x.npy --observer mse=8 -o stats.json",
            "model.mlir --input x.npy --batch-size 8 -o stats.json",
        ),
    ),
    "compare": Command(
        "compare a quantized model with its float model",
        "Compare a quantized model of any tool with its float model on samples: print the\n"
        "error of each layer in execution order, and mark the layers that add most error.",
        "FLOAT QUANTIZED --data! --labels --json --entry --shape --static --constant "
        "--no-progress",
        (
            "model.tflite quantized.tflite --data x.npz",
            "model.mlir quantized.mlir --data x.npy --json errors.json",
            "model.tflite quantized.tflite --data x.npz --labels y.npy",
        ),
    ),
    "inspect": Command(
        "print the quantized tensors of a model",
        "Print the quantized tensors of a model: type, range of scales and zero points;\n"
        "for constants also the fraction of elements at a bound of the storage range.",
        "MODEL --sort --json -p --shape --static --constant",
        (
            "model.tflite",
            "model.tflite --sort bytes --json tensors.json",
            "model.mlir -p normalize-quant-types --sort scale",
        ),
    ),
    "import": Command(
        "convert .onnx and .tflite files to MLIR text, and back",
        "Convert a .tflite file to a .mlir file in the tfl dialect, or an .onnx file to\n"
        "one of StableHLO ops, or back. Without -o, print the module.",
        "MODEL -o -p --shape --static --constant --print-debuginfo",
        (
            "model.tflite -o model.mlir",
            "model.onnx --shape x=1x3x16x16 -o model.mlir",
            "model.tflite --static -p convert-tfl-to-linalg",
        ),
    ),
    "run": Command(
        "run a function of a model on NumPy arrays",
        "Run a function of a model on NumPy arrays. Arguments and results of quantized\n"
        "types are stored values. Results are printed, or written to .npy or .npz files.",
        "MODEL --input -o --steps --trace --c-header --kernels "
        f"{_ROUNDING} {_MODEL_OPTIONS}",
        (
            "model.mlir --input x.npy -o y.npy",
            "model.mlir --entry f --input 3.5 --input '[[1, 2], [3, 4]]'",
            "model.tflite --input frames.npy --steps -o scores.npy",
        ),
    ),
    "target": Command(
        "list or check hardware targets",
        "List the hardware targets, or check one and print a line per kernel signature.\n"
        "Constraints in parentheses are traits of the op.",
        "ACTION TARGET",
        ("list", "check tflite-int8", "check my_accelerator.toml"),
    ),
    "prove": Command(
        "prove properties of casts and models for all inputs",
        "Prove claims about casts, passes or models for all inputs, or refute them.",
        "TYPE --against --samples --radius --tries --json --after --to "
        "--scale-rounding --scales --fuse --all-inputs --seconds "
        f"{_ROUNDING} {_MODEL_OPTIONS} --no-progress",
        (
            "'!quant.uniform<i8:f32, 0.3:5>' --rounding-mode truncate",
            "model.mlir --after canonicalize",
            "int8.mlir --against model.mlir --samples x.npy --radius 0.05",
        ),
        # The command takes an `ImportError` for a missing optional package.
        ("numpy",),
    ),
    "rosetta": Command(
        "compare the arithmetic of runtimes",
        "Compare the stored values that runtimes compute for a type, for each op of a\n"
        ".tflite file, or for each op of a model on the samples of --data.",
        "TYPE --data --input --against --runtimes --ops --all-inputs --json "
        f"{_MODEL_OPTIONS} --no-progress",
        (
            "'!quant.uniform<i8:f32, 0.5:3>'",
            "'!quant.uniform<u8:f16, 0.1:128>' --against onnxruntime",
            "model.onnx --data x.npz --runtimes onnxruntime",
        ),
    ),
}


_ARGUMENTS = """
  MODEL                   MLIR, .onnx or .tflite file, or - for standard input
  FLOAT                   float model: MLIR, .onnx or .tflite file, or -
  QUANTIZED               quantized model: MLIR, .onnx or .tflite file, or -
  TYPE                    a quantized type, MLIR, .onnx or .tflite file, or -
  ACTION                  list or check
  TARGET                  target to check: a name or a .toml file
  --data FILE             samples in rows: .npy, .npz (array per argument) or -
  --input VALUE           argument: .npy, .npz[:key], -, number or list; repeat
  -o FILE                 output file; - is standard output
  --report FILE           also write a report: .html or -
  --json FILE             also write the result as JSON; - prints JSON only
  --recipe RECIPE         a name or a .toml file (default: int8)
  --target TARGET         hardware target: a name or a .toml file
  --budget LIMIT          limit of recipe mixed: '20 kB', '6 dB' or '0.5 %'
  --test-data FILE        samples for the report (default: --data)
  --labels FILE           class index of each sample, to measure accuracy
  --data-labels FILE      class index of each sample of --data
  --times                 measure times of float and quantized kernels
  --checkpoint FILE       progress of calibration, to resume after an interrupt
  --observer OBSERVER     range estimator, see above (default: min-max)
  --batch-size N          split --input into batches (default: one batch)
  --whole INDEX           argument to pass whole to every batch; repeat
  --axis KEY=DIMENSION    record one range per index of a dimension; repeat
  --types OPTIONS         types of the report, e.g. 'bits=4 symmetric=true'
  --sort KEY              name, op, storage, scale, zero-point, bytes, at-bounds
  --print-debuginfo       print locations, which contain tensor names
  --steps                 call once per row of the inputs, and keep the state
  --trace DIR             write the values of each op for hardware testbenches
  --c-header FILE         with --trace: also write the constants as a C header
  --kernels NAME          reference (default), multiplier, xnnpack, onnxruntime
  --after PASSES          prove that these passes preserve results
  --to TYPE               prove requantization from one !quant.fixed_point type
  --scale-rounding MODE   of requantization: single (default) or double
  --scales LOW HIGH       prove for all scales in this range
  --fuse                  lower with the option fuse=true
  --all-inputs            also compute all 2^32 floats
  --seconds SECONDS       time limit for each claim (default: 60)
  --against NAME          float model, or runtime (compiled or onnx-definition)
  --samples FILE          centers of the regions to bound, in rows: .npy or .npz
  --radius R [LOW HIGH]   of the regions; limits of all elements, e.g. 0 1
  --tries N               inputs to run in each region (default: 100)
  --runtimes NAMES        runtimes to compare, with commas (default: all)
  --ops NAMES             ops to compare, with commas (default: all)
  --rounding-mode MODE    nearest-even (default), nearest-away or truncate
  --zero-point-order ORDER  before-rounding (default) or after-rounding
  --nan VALUE             stored NaN: storage-min (default) or stored-zero
  --entry NAME            function (default: the only public one, or main)
  -p PASSES               passes to apply first, as for xdsl-opt
  --shape NAME=SIZES      shape of a dynamic input, e.g. x=1x16x16x3; repeat
  --static                replace dynamic sizes by those in the file, or by 1
  --constant NAME=VALUE   constant for an input of an .onnx file; repeat
  --no-progress           hide the progress bar
"""
"""Lines of the help of all commands; the first word is the key."""

_HELP_LINES = {line.split()[0]: line for line in _ARGUMENTS.splitlines() if line}

_ALIASES = {
    "--input": ("--inputs",),
    "-o": ("--output",),
    "-p": ("--passes",),
}
"""Further flags, which the help does not show."""

_LIST: Mapping[str, Any] = {"action": "append", "default": []}

_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "MODEL": {"dest": "module"},
    "FLOAT": {"dest": "module"},
    "QUANTIZED": {"dest": "quantized"},
    "TYPE": {"dest": "module"},
    "ACTION": {"dest": "action", "choices": ("list", "check")},
    "TARGET": {"dest": "module", "nargs": "?"},
    "--data": _LIST,
    "--input": {**_LIST, "dest": "inputs"},
    "-p": {"default": ""},
    "--recipe": {"default": "int8"},
    "--observer": {"default": "min-max"},
    "--batch-size": {"type": int},
    "--whole": {**_LIST, "type": int},
    "--axis": _LIST,
    "--types": {"default": ""},
    "--sort": {"choices": SORT_NAMES, "default": "order"},
    "--scales": {"nargs": 2, "type": float, "metavar": ("LOW", "HIGH")},
    "--scale-rounding": {"choices": get_args(ScaleRounding), "default": "single"},
    "--radius": {"nargs": "+", "type": float},
    "--tries": {"type": int},
    "--seconds": {"type": float, "default": 60.0},
    "--rounding-mode": {"choices": get_args(RoundingMode)},
    "--zero-point-order": {"choices": get_args(ZeroPointOrder)},
    "--kernels": {"choices": get_args(KernelSet)},
    "--nan": {"choices": get_args(NanResult)},
    "--shape": _LIST,
    "--constant": _LIST,
    "--no-progress": {"action": "store_false", "dest": "progress"},
}
"""Arguments of `add_argument` beside flags and metavar."""


class _Parser(argparse.ArgumentParser):
    """A parser whose help is a given text."""

    def __init__(self, prog: str, usage: str, text: str):
        super().__init__(prog, f"{prog} {usage}")
        self.text = text
        version = f"{_PROGRAM} {__version__}"
        self.add_argument("--version", action="version", version=version)

    def format_help(self) -> str:
        return f"usage: {self.usage}\n\n{self.text}\n"


def _command_parser(name: str) -> _Parser:
    command = COMMANDS[name]
    keys = command.arguments.replace("|", " ").replace("!", "").split()
    lines = [_HELP_LINES[key] for key in keys]
    examples = [f"  {_PROGRAM} {name} {example}" for example in command.examples]
    text = "\n".join([command.description, "", *lines, "examples:", *examples])
    values = [key for key in keys if key[0] != "-"]
    parser = _Parser(f"{_PROGRAM} {name}", " ".join(["[options]", *values]), text)
    for alternatives in command.arguments.split():
        keys = alternatives.split("|")
        is_choice = len(keys) > 1
        group = (
            parser.add_mutually_exclusive_group(required=True) if is_choice else parser
        )
        for key in keys:
            flags, settings = _settings(key)
            group.add_argument(*flags, **settings)
    return parser


def _settings(key: str) -> tuple[Sequence[str], Mapping[str, Any]]:
    """Return the flags and keyword arguments of `add_argument`."""
    required = {"required": True} if key.endswith("!") else {}
    key = key.removesuffix("!")
    settings = _SETTINGS.get(key, {})
    if key[0] != "-":
        return (), {"metavar": key, **settings}
    start, _, _ = _HELP_LINES[key].strip().partition("  ")
    _, _, metavar = start.partition(" ")
    value = {"metavar": metavar} if metavar else {"action": "store_true"}
    return (key, *_ALIASES.get(key, ())), {**value, **settings, **required}


def parse_arguments(
    name: str, arguments: Sequence[str] | None = None
) -> argparse.Namespace:
    """
    Parse the arguments of a command, those of the process by default.

    Raises:
        SystemExit: with code 0 after `--help` or `--version`, 2 after a usage error.
    """
    return _command_parser(name).parse_args(arguments)


def command_name(arguments: Sequence[str]) -> str:
    """
    Return the command that the arguments of `xdsl-quant` begin with.

    Raises:
        SystemExit: with code 0 after `--help` or `--version`, 2 after a usage error.
    """
    lines = [f"  {name:<12} {command.summary}" for name, command in COMMANDS.items()]
    text = "\n".join(
        [
            "Quantize models, run them, and measure the error.\n",
            *lines,
            f"\n{_PROGRAM} COMMAND --help lists the options of a command.",
        ]
    )
    parser = _Parser(_PROGRAM, "COMMAND ...", text)
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS)
    return parser.parse_args(arguments[:1]).command
