"""Owns what a token costs while requests wait: the time of prompts and of output."""

from __future__ import annotations

_HALF_LIFE_S = 10.0
"""Seconds after which an iteration counts half."""


class ServiceRates:
    """Seconds that a prompt token and an output token take, such that they explain the times of the
    last iterations (least squares, in which older ones fade).

    With iterations of either kind these are the two rates; where prompts ride in decode iterations
    they are told apart by how the times vary.
    """

    def __init__(self) -> None:
        self._prompt_prompt, self._prompt_output, self._output_output = 0.0, 0.0, 0.0
        self._prompt_s, self._output_s = 0.0, 0.0

    def take(self, num_prompt: int, num_output: int, seconds: float) -> None:
        """Tokens of prompts and output of an iteration, and what it took."""
        fade = 0.5 ** (seconds / _HALF_LIFE_S)
        self._prompt_prompt = fade * self._prompt_prompt + num_prompt * num_prompt
        self._prompt_output = fade * self._prompt_output + num_prompt * num_output
        self._output_output = fade * self._output_output + num_output * num_output
        self._prompt_s = fade * self._prompt_s + num_prompt * seconds
        self._output_s = fade * self._output_s + num_output * seconds

    def seconds(self, num_prompt: float, num_output: float) -> float:
        """What so many tokens take; 0 before anything is known."""
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
        total = prompt + 2 * mixed + output  # all tokens alike
        alike = (self._prompt_s + self._output_s) / total if total else 0.0
        return alike, alike
