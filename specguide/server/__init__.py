"""Owns the HTTP server: the APIs of OpenAI and Anthropic over an engine, and the processes that
serve them."""
