"""The provenance methods, by name, in the order the switcher lists them."""

from __future__ import annotations

from provenance.methods.attention import Attention
from provenance.methods.attention_heads import AttentionHeads
from provenance.methods.base import Method
from provenance.methods.leave_one_out import LeaveOneOut
from provenance.methods.llm import LlmScore
from provenance.methods.rerank import Rerank
from provenance.methods.shapley import Shapley
from provenance.methods.similarity import Similarity

METHODS: dict[str, Method] = {
    method.name: method
    for method in (Attention(), AttentionHeads(), LeaveOneOut(), Shapley(), Rerank(), Similarity(), LlmScore())
}
