"""HTTP as every route has it, whatever it is asked for.

Begin with `errors`: what goes wrong is an ApiError, told by `error_answers` where no route does. On
its way in, a request passes `connection` (with `h11_connection` and `tls`), `middleware` (with
`body_room`) and `json_body`, which makes values of bytes. `clients` says who asks, and
`request_ids` what a request is called. `request_log`, `tracing` and `metrics`, with `figures`, tell
what became of it.
"""
