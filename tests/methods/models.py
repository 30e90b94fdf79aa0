"""Models the method tests run on: the packaged writer, and tiny random ones of many families."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import transformers

from provenance.generation.models import LanguageModel, load_language_model, wrap, writer_unavailable
from provenance.settings import load_settings

WINDOW = 24  # shorter than the test threads, so that sliding windows cut
_SIZE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}
_ALTERNATING = ["sliding_attention", "full_attention"] * 2
_FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "qwen2": ("Qwen2Config", {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2}),
    "qwen3": ("Qwen3Config", {"head_dim": 32}),
    "mistral": ("MistralConfig", {"sliding_window": WINDOW}),
    "phi3": ("Phi3Config", {"sliding_window": WINDOW}),
    "gemma2": (
        "Gemma2Config",
        {
            "head_dim": 16,
            "sliding_window": WINDOW,
            "query_pre_attn_scalar": 20,
            "attn_logit_softcapping": 2.0,
            "layer_types": _ALTERNATING,
        },
    ),
    "gemma3": (
        "Gemma3TextConfig",
        {"head_dim": 16, "sliding_window": WINDOW, "query_pre_attn_scalar": 20, "layer_types": _ALTERNATING[::-1]},
    ),
    "gpt2": ("GPT2Config", {}),
    "olmo2": ("Olmo2Config", {}),
    "gpt_oss": (
        "GptOssConfig",
        {
            "head_dim": 16,
            "sliding_window": WINDOW,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "layer_types": _ALTERNATING,
        },
    ),
}
FAMILIES = tuple(_FAMILIES)


@functools.cache
def default_model() -> LanguageModel:
    """The packaged writer; the test is skipped where it is not installed."""
    settings = load_settings()
    reason = writer_unavailable(settings)
    if reason:
        pytest.skip(reason)
    return load_language_model(settings)


@functools.cache
def tiny_model(family: str, attention: str = "eager") -> LanguageModel:
    """A random model of a family with the packaged writer's tokenizer. The same weights each time."""
    tokenizer = default_model().tokenizer
    name, extra = _FAMILIES[family]
    config = getattr(transformers, name)(vocab_size=len(tokenizer), **{**_SIZE, **extra})
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    return wrap(model.eval(), tokenizer, family, "random")
