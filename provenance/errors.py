"""The engine's named errors. Each message is a sentence fit for the screen."""


class ProvenanceError(Exception):
    """Something the engine cannot do; the message says what and what to do next."""


class SettingsError(ProvenanceError):
    """A setting has a value that cannot be used."""


class Unavailable(ProvenanceError):
    """A part that cannot run here (weights missing, endpoint without token scores, …)."""


class SpanNotFound(ProvenanceError):
    """A passage, the question or the answer cannot be found whole in the rendered thread."""
