"""Owns the time that a prompt token and an output token take while requests wait."""

from __future__ import annotations

_HALF_LIFE_S = 10.0
"""Seconds after which the weight of an iteration is halved."""


class ServiceRates:
    """Estimates the seconds per prompt token and per output token from the times of the last
    iterations, by least squares; older iterations fade.

    With separate prefill and decode iterations, these are simply their two rates. In mixed
    iterations, the variation of their times tells the two apart.
    """

    def __init__(self) -> None:
        self._prompt_prompt, self._prompt_output, self._output_output = 0.0, 0.0, 0.0
        self._prompt_s, self._output_s = 0.0, 0.0

    def take(self, num_prompt: int, num_output: int, seconds: float) -> None:
        """Take the prompt tokens, output tokens and time of an iteration."""
        fade = 0.5 ** (seconds / _HALF_LIFE_S)
        self._prompt_prompt = fade * self._prompt_prompt + num_prompt * num_prompt
        self._prompt_output = fade * self._prompt_output + num_prompt * num_output
        self._output_output = fade * self._output_output + num_output * num_output
        self._prompt_s = fade * self._prompt_s + num_prompt * seconds
        self._output_s = fade * self._output_s + num_output * seconds

    def seconds(self, num_prompt: float, num_output: float) -> float:
        """The time that these tokens take; 0 before anything is known."""
        per_prompt, per_output = self._per_token()
        return num_prompt * per_prompt + num_output * per_output

    def _per_token(self) -> tuple[float, float]:
        prompt, output, mixed = self._prompt_prompt, self._output_output, self._prompt_output
        determinant = prompt * output - mixed * mixed
        if determinant > 1e-9 * prompt * output:
            per_prompt = (output * self._prompt_s - mixed * self._output_s) / determinant
            per_output = (prompt * self._output_s - mixed * self._prompt_s) / determinant
            if per_prompt >= 0 and per_output >= 0:
                return per_prompt, per_output
        total = prompt + 2 * mixed + output  # as if all tokens took equally long
        alike = (self._prompt_s + self._output_s) / total if total else 0.0
        return alike, alike
