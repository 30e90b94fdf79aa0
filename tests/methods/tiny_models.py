"""Small random-weight models of many families, and a byte-level tokenizer, made without any download."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from provenance.generation.models import LanguageModel, wrap

_SHARED: dict[str, Any] = {
    "vocab_size": 260,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 2048,
    "pad_token_id": 0,
    "bos_token_id": 257,
    "eos_token_id": 258,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {}),
    "mistral": ("MistralConfig", {"sliding_window": 64}),
    "phi3": ("Phi3Config", {"sliding_window": None}),
    "gemma2": ("Gemma2Config", {"sliding_window": 64, "query_pre_attn_scalar": 8}),
    "gemma3": (
        "Gemma3TextConfig",
        {"sliding_window": 64, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    ),
    "olmo2": ("Olmo2Config", {}),
    "gpt_oss": (
        "GptOssConfig",
        {
            "sliding_window": 64,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    "gpt2": ("GPT2Config", {}),
}
# A soft-cap and sink tokens exist only in the eager and flash kernels of these.
_EAGER = {"gemma2", "gpt_oss"}


@cache
def tiny_model(family: str) -> LanguageModel:
    """A random-weight model of a family; the same weights every time."""
    name, changes = FAMILIES[family]
    config_class = getattr(transformers, name)
    if family == "gpt2":
        config = config_class(
            vocab_size=260, n_embd=32, n_layer=3, n_head=4, n_positions=2048, bos_token_id=257, eos_token_id=258
        )
    else:
        config = config_class(**{**_SHARED, **changes})
    torch.manual_seed(7)
    kind = "eager" if family in _EAGER else "sdpa"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=kind).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.25)  # the usual 0.02 leaves a tiny model almost deaf to its context
    return wrap(model, byte_tokenizer(), f"tiny-{family}", "0")


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
