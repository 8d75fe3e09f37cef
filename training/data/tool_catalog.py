"""Hand-written functions and the requests that call them."""

# ruff: noqa: E501
# name | description | fields (name type, ? = optional) | requests, with [parts for optional fields]
CATALOG_TEXT = """
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
