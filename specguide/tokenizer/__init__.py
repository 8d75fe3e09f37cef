"""Text to tokens and back, and the bytes that tokens stand for."""

from specguide.tokenizer.client_template import ClientTemplate
from specguide.tokenizer.detokenizer import IncrementalDetokenizer
from specguide.tokenizer.tokenizer import Tokenizer
from specguide.tokenizer.vocabulary import Vocabulary

__all__ = ["ClientTemplate", "IncrementalDetokenizer", "Tokenizer", "Vocabulary"]
