"""The report on a quantized model as text, JSON and HTML."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from xdsl_quant.diagnostics import counted, table
from xdsl_quant.runtime.atomic_files import write_text_atomically
from xdsl_quant.runtime.extras import notebook_html

from .latency import ModelTimes
from .report_data import MAX_SHOWN, KernelReport, ReportData, storage, worst_kernels
from .signal_noise import decibels, json_text


@dataclass(frozen=True)
class ModelReport(ReportData):
    """What quantization did to a model, as text, JSON and HTML."""

    def json(self) -> str:
        """
        The report as JSON: objects whose keys are the fields of these classes. A ratio
        without noise, and one of what there is not, is `null`.
        """
        content = asdict(replace(self, search=None))
        content["search"] = None if self.search is None else self.search.content()
        for kernel in content["kernels"]:
            del kernel["histogram"]
        return json_text(content)

    def page(self, title: str = "Quantized model") -> str:
        """
        The text of an HTML page with all kernels, which needs nothing else.

        Raises:
            ImportError: if Jinja2 or matplotlib is not installed.
        """
        return self._html(title)

    def save_html(
        self, path: str | os.PathLike[str], title: str = "Quantized model"
    ) -> None:
        """
        Write the page to a file.

        Raises:
            ImportError: if Jinja2 or matplotlib is not installed.
            OSError: if the file cannot be written; it is as it was before.
        """
        write_text_atomically(path, self.page(title))

    def _repr_html_(self) -> str | None:
        return notebook_html(lambda: self._html(None))

    def _html(self, title: str | None) -> str:
        # Most reports are printed as text.
        from .report_page import html_of

        return html_of(self, title)

    def with_times(self, times: ModelTimes) -> ModelReport:
        """The same with times of the model and of its kernels."""
        kernels = [
            replace(kernel, times=times.kernels.get(number, kernel.times))
            for number, kernel in enumerate(self.kernels)
        ]
        return replace(self, kernels=kernels, latency=times.latency)

    def __str__(self) -> str:
        """The report as a table, of a large model with the kernels that lose most."""
        worst = worst_kernels(self.kernels)
        rows = [(*_COLUMNS, "time")]
        rows += [
            (*_kernel_row(each), str(each.times))
            for _, each in sorted(worst[:MAX_SHOWN])
        ]
        more: list[str] = []
        if others := worst[MAX_SHOWN:]:
            more = [
                f"... and {counted(len(others), 'more kernel')} that lose less, which "
                "--report writes to a file"
            ]
        if not self.has_times:
            rows = [row[:-1] for row in rows]
        outputs = ", ".join(
            f"{name} {decibels(sqnr)} dB" for name, sqnr in self.outputs.items()
        )
        ratio = ""
        if self.stored_bytes:
            ratio = f", {self.float_bytes / self.stored_bytes:.2f} times less"
        return "\n".join(
            [
                *table(rows),
                *more,
                "",
                f"SQNR of the results: {outputs}",
                *(
                    str(each)
                    for each in (self.accuracy, self.latency)
                    if each is not None
                ),
                f"constants: {self.float_bytes} -> {self.stored_bytes} bytes{ratio}",
            ]
        )


_COLUMNS = "kernel where result weights SQNR own weights saturated bytes".split()


def _kernel_row(kernel: KernelReport) -> Sequence[str]:
    sizes = f"{kernel.float_bytes} -> {kernel.stored_bytes}"
    return (
        kernel.kernel,
        kernel.location,
        storage(kernel.result_type) or "float",
        storage(kernel.weight_type) or "-",
        *map(decibels, (*kernel.shown_sqnrs, kernel.weight_sqnr)),
        f"{kernel.saturated_part:.2%}",
        sizes if kernel.float_bytes else "-",
    )
