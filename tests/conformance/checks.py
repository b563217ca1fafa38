"""What is compared with MLIR: each check finds what needs an explanation and has none."""

from collections import Counter
from functools import cache
from importlib import import_module
from typing import NamedTuple, cast

from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import (
    CommonSubexpressionElimination,
)

from .answers import Accepted, Answer, Crashed, Diagnostic, Rejected
from .differences import (
    Comparison,
    PassName,
    Subject,
    explanation,
    is_normal_text,
    signless_spelling,
    without_storage_casts,
)
from .real_mlir import Mlir
from .this_package import answer_module, answer_type

MLIR_PIPELINES: dict[PassName, str] = {
    "lower-quant-ops": "func.func(lower-quant-ops)",
    "strip-func-quant-types": "strip-func-quant-types",
    "normalize-quant-types": "func.func(normalize-quant-types)",
}
"""How MLIR calls the passes that this package has, too."""

_FOLD = (CanonicalizePass(), CommonSubexpressionElimination(), CanonicalizePass())


class Mismatch(NamedTuple):
    """Two answers that differ, and no deliberate difference is the reason."""

    check: str
    comparison: Comparison

    def __str__(self) -> str:
        text, mlir, ours, release = self.comparison
        return (
            f"{self.check}: {text!r}\n    MLIR {release}: {_shown(mlir)}\n"
            f"    ours: {_shown(ours)}"
        )


def _shown(answer: Answer) -> str:
    return f"{type(answer).__name__} {', '.join(map(str, answer))}"


@cache
def our_pass(name: PassName) -> ModulePass:
    """The pass of this package with its default options."""
    module = import_module(f"xdsl_quant.transforms.quant.{name.replace('-', '_')}")
    words = "".join(word.capitalize() for word in name.split("-"))
    return cast(type[ModulePass], getattr(module, f"{words}Pass"))()


def agree(comparison: Comparison) -> bool:
    """Whether both implementations give the same answer; a crash is none."""
    ours = comparison.ours
    return comparison.mlir == ours and not isinstance(ours, Crashed)


def _without_place(answer: Answer) -> Answer:
    """Verifiers of xDSL do not know where in the text an op stands: keep the message."""
    if not isinstance(answer, Rejected):
        return answer
    return Rejected((Diagnostic(0, 0, answer.message),))


class Conformance:
    """Checks of inputs, and how many of them there were."""

    def __init__(self, mlir: Mlir):
        self.mlir = mlir
        self.inputs: Counter[Subject] = Counter()
        self.outcomes: Counter[str] = Counter()
        """How often each kind of outcome was seen, the named differences included."""

    def compare(self, subject: Subject, text: str) -> Comparison:
        """What both implementations say about a text."""
        match subject:
            case "type":
                return self._comparison(text, self.mlir.type(text), answer_type(text))
            case "op":
                mlir = _without_place(self.mlir.run(text))
                return self._comparison(
                    text, mlir, _without_place(self._reprinted(text))
                )
            case _:
                return self._compare_pass(subject, text)

    def _comparison(self, text: str, mlir: Answer, ours: Answer) -> Comparison:
        return Comparison(text, mlir, ours, self.mlir.release)

    def check(self, subject: Subject, text: str) -> Mismatch | None:
        """Count the input and its outcome, and find what nobody can explain."""
        self.inputs[subject] += 1
        comparison = self.compare(subject, text)
        if mismatch := self._settle(subject, subject, comparison):
            return mismatch
        if subject == "type" and isinstance(comparison.ours, Accepted):
            return self._check_type_again(comparison.ours.text)
        if subject == "type" and agree(comparison):
            return self._check_type_in_file(comparison)
        if subject == "op" and isinstance(comparison.ours, Accepted):
            generic = comparison._replace(ours=self._reprinted(text, generic=True))
            return self._settle("op, generic form", subject, generic)
        return None

    def _settle(
        self, check: str, subject: Subject, comparison: Comparison
    ) -> Mismatch | None:
        """Count the outcome; a difference is a mismatch unless it is a deliberate one."""
        if agree(comparison):
            verdict = type(comparison.ours).__name__.lower()
            self.outcomes[f"{check}: both {verdict}"] += 1
            return None
        if (difference := explanation(comparison, subject)) is None:
            return Mismatch(check, comparison)
        crashed = " (MLIR crashed)" if isinstance(comparison.mlir, Crashed) else ""
        self.outcomes[f"{check}: {difference.name}{crashed}"] += 1
        return None

    def _check_type_again(self, text: str) -> Mismatch | None:
        """What we print reads back as the same, here and in MLIR."""
        comparison = self.compare("type", text)
        expected = Accepted(text)
        if comparison.ours != expected:
            return Mismatch("type, printed", comparison._replace(mlir=expected))
        if isinstance(comparison.mlir, Accepted) and is_normal_text(
            text, self.mlir.release
        ):
            # There is no excuse for a change of this text.
            comparison = comparison._replace(ours=expected)
            return None if agree(comparison) else Mismatch("type, printed", comparison)
        return self._settle("type, printed", "type", comparison)

    def _check_type_in_file(self, comparison: Comparison) -> Mismatch | None:
        """The same error where more text follows."""
        if comparison.messages[0].startswith("found trailing characters"):
            return None
        text = f"func.func private @f({comparison.text})\n"
        mlir, ours = self.mlir.run(text), answer_module(text)
        if isinstance(mlir, Rejected):
            mlir = Rejected(mlir.diagnostics[:1])
        return self._settle(
            "type in a file", "type", self._comparison(text, mlir, ours)
        )

    def _reprinted(self, text: str, *, generic: bool = False) -> Answer:
        """
        What this package says about a module; if it accepts it, what MLIR says about how
        it prints it.
        """
        ours = answer_module(text, generic=generic)
        if not isinstance(ours, Accepted):
            return ours
        reprinted = self.mlir.run(ours.text)
        # A type that aborts MLIR does so again, and MLIR's own mistakes are no answer.
        return reprinted if isinstance(reprinted, Accepted) else ours

    def _compare_pass(self, name: PassName, text: str) -> Comparison:
        """
        The result of a pass, after MLIR has printed both.

        MLIR's conversion framework folds casts that a pass only meets. Where this makes a
        difference, it is the result for the module without such casts that is compared.
        """
        comparison = self._compare_pass_results(name, text)
        is_verdict_same = type(comparison.mlir) is type(comparison.ours) is Accepted
        if name == "lower-quant-ops" or agree(comparison) or not is_verdict_same:
            return comparison
        folded = answer_module(text, _FOLD)
        if not isinstance(folded, Accepted):
            return comparison
        comparison = self._compare_pass_results(name, folded.text)
        return comparison._replace(text=text)

    def _compare_pass_results(self, name: PassName, text: str) -> Comparison:
        mlir = self.mlir.run(text, MLIR_PIPELINES[name])
        ours = answer_module(text, (our_pass(name),))
        if isinstance(ours, Rejected) and isinstance(mlir, Rejected):
            # A pass of MLIR fails with the words of its conversion framework.
            return self._comparison(text, mlir, mlir)
        if isinstance(ours, Accepted):
            ours = self._reprinted_result(ours.text)
        return self._comparison(text, mlir, ours)

    def _reprinted_result(self, text: str) -> Answer:
        """
        A module of ours, printed by MLIR. Also where MLIR's pass fails, ours gives a module
        that MLIR accepts, but for storage casts: it has none of `ui8`, floats and tables.
        """
        reprinted = self.mlir.run(text)
        for spelled in signless_spelling(text), without_storage_casts(text):
            if not isinstance(reprinted, Accepted):
                reprinted = self.mlir.run(spelled)
        return reprinted
