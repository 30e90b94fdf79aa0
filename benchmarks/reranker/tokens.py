"""The packaged reranker's tokenizer: MiniLM's, with a line break as a token and a [CLS] for each side."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from benchmarks.reranker.graph import BREAK, CLS, SEP

MAX_TOKENS = 512


def write_tokenizer(encoder: Path, target: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json, special_tokens_map.json and config.json as FlashRank reads them.

    `encoder` is the folder of all-MiniLM-L6-v2. A pair becomes `[CLS] left [SEP] [CLS] passage [SEP]`, with type 0
    for the left three parts and 1 for the right.
    """
    tokenizer = json.loads((encoder / "tokenizer.json").read_text("utf-8"))
    tokenizer["truncation"] = tokenizer["padding"] = None
    tokenizer["added_tokens"].append(
        {
            "id": BREAK, "content": "\n", "single_word": False, "lstrip": True, "rstrip": True,
            "normalized": False, "special": True,
        }
    )  # fmt: skip
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [_special("[CLS]", 0), _sequence("A", 0), _special("[SEP]", 0)],
        "pair": [
            _special("[CLS]", 0), _sequence("A", 0), _special("[SEP]", 0),
            _special("[CLS]", 1), _sequence("B", 1), _special("[SEP]", 1),
        ],
        "special_tokens": {
            name: {"id": name, "ids": [number], "tokens": [name]} for name, number in (("[CLS]", CLS), ("[SEP]", SEP))
        },
    }  # fmt: skip
    (target / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), "utf-8")
    config = json.loads((encoder / "tokenizer_config.json").read_text("utf-8"))
    kept = {k: v for k, v in config.items() if k != "name_or_path"} | {"model_max_length": MAX_TOKENS}
    (target / "tokenizer_config.json").write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    shutil.copyfile(encoder / "special_tokens_map.json", target / "special_tokens_map.json")
    config = json.loads((encoder / "config.json").read_text("utf-8"))
    kept = {k: v for k, v in config.items() if not k.startswith("_")} | {"vocab_size": BREAK + 1}
    (target / "config.json").write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


def _special(name: str, side: int) -> dict[str, object]:
    return {"SpecialToken": {"id": name, "type_id": side}}


def _sequence(name: str, side: int) -> dict[str, object]:
    return {"Sequence": {"id": name, "type_id": side}}
