"""Tool-choice tasks: signatures in the prompt, and a call (or a short refusal where no tool fits) as the answer."""

from __future__ import annotations

from random import Random
from typing import Any

from training import lexicon as lx
from training.procedural import procedural_kind
from training.records import STYLES, FieldSpec, parse_kind, style_name
from training.semantic import semantic_kind
from training.values import Value

# name | description | fields (name type, ? = optional) | requests, with [parts for optional fields]
_CATALOG = """
get_weather | Get the weather for a city | city city; date? iso; unit? enum(celsius,fahrenheit) | What's the weather in {city}[ on {date}][ in {unit}]? / How is the weather in {city}[ on {date}]? / Do I need an umbrella in {city}[ on {date}]?
send_email | Send an e-mail | to email; subject topic; body sentence | Send a mail to {to} about {subject} saying: {body} / Write {to} an e-mail, subject {subject}, text "{body}"
book_table | Reserve a table at a restaurant | restaurant company; guests int(1,12); time time; date? iso | Book a table for {guests} at {restaurant} at {time}[ on {date}]. / Reserve {restaurant} for {guests} people, {time}[, {date}].
create_reminder | Create a reminder | text sentence; date iso; time? time | Remind me on {date}[ at {time}]: {text} / Set a reminder "{text}" for {date}[, {time}].
search_flights | Search flights between two cities | origin city; destination city; date iso; passengers? int(1,6) | Find flights from {origin} to {destination} on {date}[ for {passengers} passengers]. / I need to fly to {destination} from {origin} on {date}[ with {passengers} people].
convert_currency | Convert an amount of money between currencies | amount dec(1,9000,2); from_currency currency; to_currency currency | How much is {amount} {from_currency} in {to_currency}? / Convert {amount} {from_currency} to {to_currency}. / Change {amount} from {from_currency} into {to_currency}.
play_music | Play a song | title book; artist? person; volume? int(0,100) | Play {title}[ by {artist}][ at volume {volume}]. / Put on "{title}"[ from {artist}].
set_thermostat | Set the temperature of a room | room word; temperature int(10,30) | Set the {room} to {temperature} degrees. / Make it {temperature} degrees in the {room}.
track_parcel | Look up where a parcel is | tracking_number code | Where is my parcel {tracking_number}? / Track {tracking_number} please. / Has shipment {tracking_number} arrived?
translate_text | Translate text into another language | text sentence; target_language language; source_language? language | Translate "{text}" into {target_language}[ from {source_language}]. / How do you say "{text}" in {target_language}?
get_stock_price | Get the price of a share | symbol code; date? iso | What is {symbol} trading at[ on {date}]? / Give me the share price of {symbol}[ for {date}].
create_event | Add an event to the calendar | title topic; date iso; start_time time; attendees? list:email; location? city | Add {title} to my calendar on {date} at {start_time}[ in {location}][ with {attendees}]. / Schedule the {title} for {date}, {start_time}[, place {location}][, invite {attendees}].
transfer_money | Transfer money to an account | recipient person; amount dec(1,5000,2); currency? currency; reference? code | Send {amount}[ {currency}] to {recipient}[, reference {reference}]. / Transfer {amount}[ {currency}] to {recipient}[ with reference {reference}].
order_product | Order a product from the shop | product product; quantity int(1,20); color? color; express? bool | Order {quantity} {product}[ in {color}][ {express?with express delivery:with normal delivery}]. / I want to buy {quantity} of the {product}[, {color}].
find_recipe | Find recipes | ingredients list:food; max_minutes? int(10,120) | What can I cook with {ingredients}[ in {max_minutes} minutes]? / Find a recipe using {ingredients}[, at most {max_minutes} minutes].
create_ticket | Open a support ticket | title issue; priority enum(low,medium,high); assignee? person | Open a {priority} priority ticket: {title}[, assign it to {assignee}]. / File a ticket "{title}" with {priority} priority[ for {assignee}].
get_directions | Get directions between two places | start address; end address; mode? enum(driving,walking,cycling,transit) | How do I get from {start} to {end}[ by {mode}]? / Directions to {end} from {start}[ ({mode})].
delete_file | Delete a file | path path; force? bool | Delete {path}[ {force?even if it is locked:unless it is locked}]. / Please remove the file {path}.
run_query | Run a query on a table of a database | table word; limit int(1,500); columns? list:word | Show {limit} rows of {table}[, only {columns}]. / Query {table} for {limit} rows[ with the columns {columns}].
calculate_tip | Calculate the tip for a bill | bill dec(5,400,2); percentage int(5,25); people? int(2,9) | What's a {percentage} percent tip on {bill}[ split by {people}]? / Tip for {bill} at {percentage}%[ among {people} people]?
set_alarm | Set an alarm | time time; weekday? weekday; label? phrase | Wake me at {time}[ on {weekday}][ with the label {label}]. / Set an alarm for {time}[ every {weekday}].
lookup_patient | Look up a patient record | patient_id code; include_history? bool | Show me patient {patient_id}[ {include_history?with the history:without the history}]. / Open the record of patient {patient_id}.
update_status | Change the status of an order | order_id code; status enum(open,shipped,delivered,cancelled) | Mark order {order_id} as {status}. / Set {order_id} to {status}. / Order {order_id} is {status} now, please update it.
get_news | Get the latest news about a topic | topic topic; count? int(1,20); language? language | Give me[ {count}] news about {topic}[ in {language}]. / What is new on {topic}[? Show {count}]
turn_on_light | Switch a light on | room word; brightness? int(1,100); color? color | Turn on the light in the {room}[ at {brightness} percent][ in {color}]. / Light on in the {room}[, {color}].
add_contact | Save a contact | name person; phone phone; email? email | Save {name} with the number {phone}[ and the mail {email}]. / New contact: {name}, {phone}[, {email}].
book_hotel | Book a hotel room | city city; check_in iso; check_out iso; guests int(1,5) | Book a hotel in {city} from {check_in} to {check_out} for {guests} guests. / I need a room for {guests} in {city}, {check_in} until {check_out}.
restart_service | Restart a service on a host | service word; host ipv4; delay_seconds? int(0,600) | Restart {service} on {host}[ in {delay_seconds} seconds]. / The {service} on {host} hangs, restart it[ after {delay_seconds} seconds].
"""
Tool = dict[str, Any]
_REFUSALS = ("None of the available tools can do that.",)
_OFF_TOPIC = ("Tell me a joke about a {w}.", "What do you think about {w} and {v}?", "Who invented the {w}?", "Thank you, that was all.",
              "How are you today?", "Write a poem about the {w}.", "Why is the {w} so {v}?", "Hello!", "Is a {w} better than a {v}?")
_VERBS = "create update delete get list find send start stop check assign cancel confirm register submit approve archive".split()


def _catalog_entry(line: str) -> tuple[str, str, tuple[FieldSpec, ...], tuple[str, ...]]:
    name, text, fields, requests = (part.strip() for part in line.split(" | "))
    lines = []
    for one in fields.split(";"):
        field, kind = one.strip().split(" ", 1)
        lines.append(f"{field} | {kind} | {field.rstrip('?').replace('_', ' ')}")
    kind = parse_kind(name, "\n".join(lines))
    return name, text, kind.fields, tuple(request.strip() for request in requests.split(" / "))


CATALOG = [_catalog_entry(line) for line in _CATALOG.strip().splitlines()]


def _signature(r: Random, name: str, text: str, schemas: dict[str, Any], required: list[str], wrap: bool) -> Tool:
    parameters: dict[str, Any] = {"type": "object", "properties": schemas}
    if required:
        parameters["required"] = required
    function = {"name": name, "description": text, "parameters": parameters}
    return {"type": "function", "function": function} if wrap else function


def _property(r: Random, spec: FieldSpec, value: Value, told: float) -> dict[str, Any]:
    schema: dict[str, Any] = dict(value.schema)
    if spec.shape == "list":
        schema = {"type": "array", "items": schema}
    if r.random() < told and "description" not in schema:
        schema["description"] = spec.description or r.choice(spec.labels)
    return schema


def _draw(r: Random, fields: tuple[FieldSpec, ...], always: bool = False) -> list[tuple[FieldSpec, list[Value] | None, Value]]:
    """Each field with its values (None: not given) and one sample value for its schema."""
    drawn = []
    for spec in fields:
        values = [spec.generate(r) for _ in range(r.randint(1, 3) if spec.shape == "list" else 1)]  # type: ignore[misc]
        given = always or not spec.optional or r.random() < 0.5
        drawn.append((spec, values if given else None, values[0]))
    return drawn


def _request(r: Random, template: str, shown: dict[str, str], truth: dict[str, bool]) -> tuple[str, set[str]]:
    """The template with its values; optional parts without a value vanish. Returns the names it tells as well."""
    out, told = [], set()
    for index, part in enumerate(template.replace("]", "[").split("[")):
        names = [piece.split("}")[0] for piece in part.split("{")[1:]]
        keys = [name.split("?")[0] for name in names]
        if index % 2 and any(key not in shown for key in keys):
            continue
        for name, key in zip(names, keys, strict=True):
            choice = name.partition("?")[2]
            part = part.replace("{" + name + "}", choice.split(":")[not truth[key]] if choice else shown[key])
            told.add(key)
        out.append(part)
    return "".join(out), told


def _catalog_task(r: Random) -> tuple[Tool, str, str]:
    name, text, fields, requests = r.choice(CATALOG)
    drawn = _draw(r, fields)
    shown = {s.name: ", ".join(v.text for v in values) for s, values, _ in drawn if values}
    truth = {s.name: values[0].json == "true" for s, values, _ in drawn if values}
    request, told = _request(r, r.choice(requests), shown, truth)
    style = r.choice(STYLES) if r.random() < 0.3 else "snake"
    style = "snake" if style in ("short", "title", "space") else style
    return _assemble(r, style_name(name, style), text, drawn, told, style, request)


def _assemble(r, name, text, drawn, told, style, request):  # type: ignore[no-untyped-def]
    rate, schemas, required, parts = r.choice((0.0, 0.5, 1.0)), {}, [], []
    for spec, values, sample in drawn:
        key = style_name(spec.name, style)
        schemas[key] = _property(r, spec, sample, rate)
        if not spec.optional:
            required.append(key)
        if values and spec.name in told:
            body = "[" + ", ".join(v.json for v in values) + "]" if spec.shape == "list" else values[0].json
            parts.append(f'"{key}": {body}')
    tool = _signature(r, name, text, schemas, required, True)
    return tool, request, f'{{"name": "{name}", "arguments": {{{", ".join(parts)}}}}}'


def _composed_task(r: Random, held_out: bool) -> tuple[Tool, str, str]:
    """A made-up function of procedurally named or everyday parameters, and a request that names them."""
    kind = procedural_kind(r, held_out) if held_out or r.random() < 0.6 else semantic_kind(r)
    fields = tuple(f for f in kind.fields if f.shape in ("leaf", "list"))[: r.randint(1, 5)]
    verb, thing = r.choice(_VERBS), kind.name.rsplit("_", 1)[0]
    drawn = _draw(r, fields)
    told = {spec.name for spec, values, _ in drawn if values}
    joiner = r.choice(("with {} {}", "{}: {}", "{} {}", "the {} is {}", "using {} {}", "{} = {}"))
    details = [
        joiner.format(r.choice(spec.labels).lower(), ", ".join(v.text for v in values)) for spec, values, _ in drawn if values
    ]
    r.shuffle(details)
    head = r.choice((f"Please {verb} the {thing}", f"{verb.capitalize()} a {thing}", f"I want to {verb} a {thing}", f"Can you {verb} the {thing}"))
    request = f"{head}{r.choice((', ', ' ', '; ', ' - '))}{r.choice((', ', ' and ', '; ')).join(details)}{r.choice(('.', '', '?'))}"
    style = r.choice(("snake", "snake", "camel", "pascal"))
    text = r.choice((f"{verb.capitalize()} a {thing}", f"{verb.capitalize()}s the {thing} in the system", f"Use this to {verb} a {thing}."))
    return _assemble(r, style_name(f"{verb}_{thing}", style), text, drawn, told, style, request)


def tool_task(r: Random, held_out: bool = False) -> tuple[list[Tool], str, str, bool]:
    """(tools, request, answer, is_call): 1 to 8 signatures of which one fits, or none does."""
    make = (lambda: _composed_task(r, True)) if held_out else (lambda: _catalog_task(r) if r.random() < 0.5 else _composed_task(r, False))
    tool, request, call = make()
    tools = {tool["function"]["name"]: tool}
    for _ in range(r.choice((0, 0, 1, 1, 2, 2, 3, 4, 5, 7))):
        other = _composed_task(r, held_out)[0] if r.random() < 0.5 else _catalog_task(r)[0]
        tools.setdefault(other["function"]["name"], other)
    if r.random() < 0.12:
        if r.random() < 0.5 or len(tools) == 1:
            request = r.choice(_OFF_TOPIC).format(w=r.choice(lx.WORDS), v=r.choice(lx.WORDS))
        else:
            del tools[tool["function"]["name"]]
        chosen = list(tools.values())
        return chosen, request, _REFUSALS[0], False
    chosen = list(tools.values())
    r.shuffle(chosen)
    return chosen, request, call, True
