"""
Worker in the environment of `tosa-tools`, with TOSA's reference model and public converter.

It exchanges pickled objects by standard input and output. It must not import this
package, which is missing in that environment.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path


def run_once(text: str, inputs: list[object]) -> tuple[str, object]:
    """Run a TOSA module; return `runs` and the results, or `invalid` and a message."""
    status, results = run_all(text, [inputs])
    return status, results[0] if status == "runs" else results


def run_all(
    text: str, runs: list[list[object]]
) -> tuple[str, list[list[object]] | str]:
    """Run a TOSA module on each input list; return status and results like `run_once`."""
    tosa_opt = distribution("tosa-tools").locate_file("bin/tosa-opt")
    reference_model = import_module("tosa_reference_model")
    with tempfile.TemporaryDirectory() as directory:
        module, graph = Path(directory, "module.mlir"), Path(directory, "module.tosa")
        module.write_text(text)
        command = (
            *(str(tosa_opt), module, "-o", os.devnull),
            *("--tosa-convert-integer-type-to-signless", "--tosa-serialize"),
            f"--tosa-flatbuffer-filename={graph}",
        )
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return "invalid", done.stderr
        content = graph.read_bytes()
    answers: list[list[object]] = []
    for inputs in runs:
        results, status = reference_model.run(content, inputs)
        if status != reference_model.GraphStatus.TOSA_VALID:
            return "invalid", status.name
        answers.append(results)
    return "runs", answers


def convert(model: bytes) -> tuple[str, str]:
    """Return `ok` and the TOSA module as text, or `error` and a message."""
    converter = import_module("tosa_converter_for_tflite")
    with tempfile.TemporaryDirectory() as directory:
        file, text = Path(directory, "model.tflite"), Path(directory, "module.mlir")
        file.write_bytes(model)
        try:
            converter.tflite_flatbuffer_to_tosa_mlir(
                str(file), str(text), converter.TosaConverterOutputFormat.Text
            )
        except Exception as e:
            return "error", str(e)
        return "ok", text.read_text()


def main() -> None:
    """Answer requests until standard input ends."""
    # Redirect the output of libraries to standard error.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            name, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = {"run": run_once, "run_all": run_all, "convert": convert}[name](
                *arguments
            )
        except Exception as e:
            answer = "invalid", f"{type(e).__name__}: {e}"
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
