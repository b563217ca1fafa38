"""The stages of mixed precision: static quantization with searched widths of storage."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from .attention_masks import mask_numbers
from .bias_correction import Correction
from .bit_search import BitSearch
from .labels import Labels
from .recipe import Recipe, SearchOptions
from .results import MixedModel
from .search_result import BitSearchResult
from .stages import Request
from .static_stages import StaticPipeline


class MixedPipeline(StaticPipeline):
    """The stages of static quantization, and a search for widths of storage."""

    bit_search: BitSearch
    """The measured models; set by `search`."""

    found: BitSearchResult
    """The chosen widths, and what others cost; set by `search`."""

    def __init__(
        self, request: Request, recipe: Recipe, module: ModuleOp, options: SearchOptions
    ):
        """
        Args:
            options: the widths that are tried, and what may be spent.
        """
        super().__init__(request, recipe, module)
        self.options = options
        self.insert("search", self.search, before="propagate")

    def search(self, module: ModuleOp) -> ModuleOp:
        """Choose widths by measuring on the samples, and specify them."""
        labels = self.request.labels
        self.bit_search = BitSearch(
            module,
            self.target,
            self.options,
            self.batches,
            self.request.entry,
            self.recipe.bias_correction,
            self.selection.weight_bits,
            None if labels is None else Labels.of(labels, self.batches),
            self.calibration.passed_on,
        )
        choice, self.found = self.bit_search.run(self.options.budget)
        self.bit_search.ask(module, choice)
        return module

    def correction(self, module: ModuleOp) -> Correction | None:
        # The search has measured models without numbers of masks.
        if not mask_numbers(self.modules["instrument"]):
            if (known := self.bit_search.corrected(module)) is not None:
                return known
        return super().correction(module)

    def result(self) -> MixedModel:
        return MixedModel(**vars(super().result()), search=self.found)
