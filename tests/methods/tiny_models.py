"""Models the method tests run on: the packaged writer, and tiny random ones of many families."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from provenance.generation.models import LanguageModel, load_language_model, wrap, writer_unavailable
from provenance.settings import load_settings

WINDOW = 24  # shorter than the test threads, so that sliding windows cut
_SHARED: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 2048,
    "pad_token_id": 0,
    "bos_token_id": 257,
    "eos_token_id": 258,
}
_ALTERNATING = ["sliding_attention", "full_attention"] * 2
_FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "qwen2": ("Qwen2Config", {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2}),
    "qwen3": ("Qwen3Config", {}),
    "mistral": ("MistralConfig", {"sliding_window": WINDOW}),
    "phi3": ("Phi3Config", {"sliding_window": WINDOW}),
    "gemma2": (
        "Gemma2Config",
        {
            "sliding_window": WINDOW,
            "query_pre_attn_scalar": 10,
            "attn_logit_softcapping": 2.0,
            "layer_types": _ALTERNATING,
        },
    ),
    "gemma3": (
        "Gemma3TextConfig",
        {"sliding_window": WINDOW, "query_pre_attn_scalar": 10, "layer_types": _ALTERNATING},
    ),
    "gpt2": ("GPT2Config", {}),
    "olmo2": ("Olmo2Config", {}),
    "gpt_oss": (
        "GptOssConfig",
        {"sliding_window": WINDOW, "num_local_experts": 2, "num_experts_per_tok": 1, "layer_types": _ALTERNATING},
    ),
}
FAMILIES = tuple(_FAMILIES)
# A soft-cap and sink tokens exist only in the eager and flash kernels of these.
_EAGER = {"gemma2", "gpt_oss"}


@cache
def default_model() -> LanguageModel:
    """The packaged writer; the test is skipped where it is not installed."""
    settings = load_settings()
    reason = writer_unavailable(settings)
    if reason:
        pytest.skip(reason)
    return load_language_model(settings)


@cache
def tiny_model(family: str, *, word_pieces: bool = False) -> LanguageModel:
    """A random-weight model of a family; the same weights every time.

    Its tokens are bytes, or with `word_pieces` those of the packaged writer, which merge across borders.
    """
    tokenizer = default_model().tokenizer if word_pieces else byte_tokenizer()
    name, extra = _FAMILIES[family]
    config = getattr(transformers, name)(vocab_size=max(len(tokenizer), 260), **{**_SHARED, **extra})
    torch.manual_seed(7)
    kind = "eager" if family in _EAGER else "sdpa"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=kind).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.25)  # the usual 0.02 leaves a tiny model almost deaf to its context
    return wrap(model, tokenizer, f"tiny-{family}", "0")


@cache
def byte_tokenizer() -> Any:
    """One token per byte, with a chat template; offsets are exact."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<pad>": 0, **{letter: i + 1 for i, letter in enumerate(alphabet)}, "<s>": 257, "</s>": 258}
    core = Tokenizer(BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    tokenizer.chat_template = (
        "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}</s>\n{% endfor %}"
        "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
    )
    return tokenizer
