"""Question → ranked candidates: embedder, reranker, fusion and the choice of what is sent."""
