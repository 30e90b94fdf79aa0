"""How the packaged reranker is made: training text → word weights and head → an ONNX graph in FlashRank's layout."""
