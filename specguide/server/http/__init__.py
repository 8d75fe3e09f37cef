"""The parts of HTTP that all routes share.

Begin with `errors`: every error is an ApiError, which `error_answers` sends where no route does. On
its way in, a request passes `connection` (with `h11_connection` and `tls`), `middleware` (with
`body_room`) and `json_body`, which parses bodies. `clients` says which client asks, and
`request_ids` names each request. `request_log`, `tracing` and `metrics`, with `figures`, report its
outcome.
"""
