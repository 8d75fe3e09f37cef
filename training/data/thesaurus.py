"""Everyday nouns by the type of value they name, in groups of words that people use for the same
thing.

They teach what a property name means: that a `reviewer` is a person, that `fee` and `charge` are
one thing.
"""

# ruff: noqa: E501, SIM905
from __future__ import annotations

from random import Random

from training.data.lexicon import HELD_OUT_WORDS, MODIFIERS
from training.data.procedural import random_enum
from training.data.records import FieldSpec, Kind
from training.data.value_types import generator

_TEXT = {
    "person": """author, writer, written by; editor, edited by; reviewer, critic, reviewed by; painter, artist, painted by; composer,
music by; director, directed by; actor, performer, played by; singer, vocalist; photographer, photo by, picture by; designer, designed by;
architect, plans by; engineer, engineered by; inventor, invented by; founder, founded by; chairman, chairperson, president; mayor; minister;
secretary, clerk; treasurer; accountant, bookkeeper; lawyer, attorney, solicitor; judge, judged by; defendant, accused; plaintiff;
police officer, officer, constable; detective, investigator; inspector, inspected by, examiner; doctor, physician, GP; surgeon; nurse;
dentist; patient; therapist; vet, veterinarian; teacher, instructor, taught by; professor, lecturer; student, pupil, learner; tutor;
headmaster, principal; coach, trainer, trained by; player, athlete; captain, skipper; goalkeeper, keeper; driver, chauffeur; pilot;
passenger, traveller; conductor; guide, tour guide; guest, visitor; host, hostess; waiter, server, served by; chef, cook, cooked by;
baker; butcher; farmer, grower, grown by; gardener; fisherman; hunter; carpenter; plumber; electrician; mechanic, repaired by;
builder, contractor, built by; painter, decorator; tailor; cleaner; janitor, caretaker; landlord, lessor; tenant, renter, lessee;
owner, holder, belongs to; buyer, purchaser, bought by; seller, sold by; broker, agent, realtor; lender, creditor, lent by;
borrower, debtor, borrowed by; donor, giver, donated by; beneficiary, payee; heir; witness, seen by; victim; rescuer; winner, champion, won by;
runner-up, second place; loser; candidate, contender; nominee; voter; member; subscriber; applicant, applied by; recruiter; manager, boss, supervisor;
employee, worker, staff member; intern, trainee; assistant, aide, helper; colleague, coworker; volunteer; sponsor; speaker, presenter, talk by;
moderator; organizer, organised by; participant, attendee; translator, interpreter; librarian; researcher, scientist; technician, operator;
developer, programmer; tester; administrator, admin; user, user name; sender, sent by; recipient, addressee, receiver; caller; contact, contact person;
emergency contact, next of kin; spouse, partner, husband, wife; mother, mum; father, dad; child, son, daughter; brother; sister; godparent; neighbour;
best man; bride; groom; priest; collector; curator of records, archivist; auctioneer; bidder; courier, messenger; signatory, signed by;
approver, approved by; requester, requested by; reporter, reported by; finder, found by; assignee, assigned to; creator, created by, made by""",
    "company": """company, firm, business; employer, works for; supplier, vendor; manufacturer, maker, producer; brand, make; publisher, published by;
record label; studio; broadcaster; newspaper, outlet; bank, financial institution; insurer, insurance company; airline, operated by; shipping company, carrier;
railway company; hotel, accommodation; restaurant; shop, store, retailer; wholesaler; importer; exporter; school; university, college; hospital, clinic;
pharmacy; laboratory; museum; theatre; club, association; charity, foundation; agency; contractor; subcontractor; developer; landlord company; utility, provider;
internet provider; software vendor; consultancy; law firm; auction house; brewery; farm; factory, plant; dealer, dealership; garage;
sponsor, sponsored by; partner, partner organisation; competitor, rival; customer company, client; party, political party; team, squad; institute; authority, issuer, issued by""",
    "city": """city, town, place; birthplace, born in; hometown, residence, lives in; headquarters, head office, based in; origin, departure, from, starting point;
destination, arrival, to, bound for; location, venue town, held in; capital; port, harbour town; airport, airfield; station, stop; branch, office location;
region, area; district, constituency; campus; site; depot; stopover, via; billing city; delivery city, shipping city; launch place; filming location""",
    "country": "country, nation, state; nationality, citizenship; country of origin, made in; home "
    "country; destination country; market; tax residence",
    "address": """address, street address; home address; billing address; delivery address, shipping address; office address; postal address; pickup address;
site address; meeting point, meet at; scene, crime scene""",
    "date": """date, day; start date, begins, starts on, from; end date, ends, until; due date, deadline, pay by; birthday, date of birth, born; date of death, died;
wedding day, married on; hire date, joined, member since; graduation date, graduated; release date, released, out on; publication date, published, appeared;
issue date, issued; expiry date, expires, valid until, best before; purchase date, bought on; delivery date, delivered on; shipping date, sent on, dispatched;
return date, back on; check-in date; check-out date; appointment, next visit; inspection date, inspected on; last update, updated, last modified;
created on, creation date; signing date, signed on; launch date; opening date, opens; closing date, closes; harvest date, picked on; manufacture date, produced on;
last service, serviced on; renewal date, renews; cancellation date, cancelled on; decision date, decided on; election day; hearing date; payment date, paid on;
registration date, registered; departure date, leaves on; arrival date, arrives on; planting date; vaccination date; recorded on; discovered on""",
    "time": """time, hour; start time, begins at, starts at; end time, ends at; departure time, leaves at; arrival time, arrives at; opening time, opens at;
closing time, closes at; pickup time; check-in time; kick-off; sunrise; sunset; bedtime; boarding time; appointment time""",
    "timestamp": "timestamp, logged at; created at; updated at; received at; measured at; last "
    "login, last seen; started at; finished at, completed at; issued at",
    "money": """price, cost, costs; total, sum, amount; fee, charge; fine, penalty; rent, monthly rent; salary, pay, wage; bonus; budget, funds; deposit, down payment;
discount amount, reduction; tax, VAT; tip, gratuity; refund, money back; loan, credit; debt, amount owed; revenue, turnover, sales; profit, earnings; loss, damage;
balance, account balance; donation, gift; prize money, award; insurance value; market value, worth, valued at; asking price; bid, offer;
interest, interest paid; toll; fare, ticket price; entry fee, admission; subscription price, monthly rate; hourly rate; shipping cost, postage; repair cost;
estimate, estimated cost; investment; pension; allowance; commission; minimum price; subtotal; grand total""",
    "percent": """share, portion; discount, price cut; interest rate, rate; growth, increase; decline, decrease; turnout; humidity, moisture; alcohol, alcohol content;
battery level, charge; completion, progress; success rate; occupancy; approval, approval rating; fat content; inflation; unemployment; margin, profit margin; slope; accuracy""",
    "code": """id, identifier, number; reference, reference number, ref; order number, order no.; invoice number; customer number; account number; serial number, serial;
part number; model number, model code; license plate, plate, registration; passport number; ID card, card number; policy number; booking code, confirmation number;
ticket number; case number, file number, docket; tracking number; room number, room; seat; gate; flight number; train number; locker; bin, shelf; badge;
certificate number; batch number, lot; postal code, zip code; product code, article number, SKU; barcode; voucher, coupon code; promo code;
employee number, staff id; course code; student number; patient number; sample number; chip number; access code, PIN; transaction number; claim number; meter number""",
    "int(1,900)": """quantity, count, number of units; participants, attendance, attendees; visitors, guests count; employees, staff size; pages, number of pages;
chapters; copies, print run; seats, capacity; rooms, number of rooms; bedrooms; floors, storeys, levels; votes, ballots cast; goals, goals scored; points, score;
wins, victories; losses, defeats; errors, mistakes; downloads; views, hits; likes; followers, fans; comments, replies; orders; complaints; accidents; injuries, injured;
houses; trees; animals, head of cattle; eggs; bottles; boxes, cartons; pallets; trips; laps; rounds; games; lines; files; users; licences; years of experience;
rank, position; grade; page; chapter; stock, on hand, in stock; minimum order; inhabitants, population; visits, check-ins; passes; steps; servings, portions""",
    "int(2,400,minutes,min)": "duration, length, takes; running time, runtime; cooking time; "
    "waiting time, wait; travel time, journey time; delay, late by; playing time; break, pause",
    "int(1,90,days)": "notice period, days of notice; delivery time; holiday, days off; trial "
    "period; interval, every; stay, length of stay; quarantine; warranty period",
    "int(10,900,cm)": "height, tall, grows to; width, wide; length, long; depth, deep; diameter; "
    "circumference; distance from wall; thickness",
    "dec(0.1,900,1, kg,kg)": "weight, mass, weighs; load, payload weight; gross weight; net "
    "weight; catch; harvest, yield; birth weight",
    "int(10,9000,m)": "altitude, elevation; distance; track length; range; depth; wingspan; "
    "perimeter",
    "int(10,9000,m2)": "area, surface, size; floor area; living space; plot size; field size",
    "int(-30,120,C,degrees)": "temperature, temp; oven temperature; boiling point; high, maximum "
    "temperature; low, minimum temperature; water temperature; storage temperature",
    "int(1,400,km/h)": "speed, velocity; top speed, maximum speed; wind, wind speed; speed limit",
    "int(1,99,years)": "age, years old; term, runs for; experience; guarantee; sentence, prison "
    "term",
    "year": "year, in the year; founded, since; vintage; built in, construction year; year of "
    "birth; model year; published in; graduation year; discovered in",
    "rating": "rating, stars; score, marks; grade point; customer rating; verdict in stars; "
    "quality score",
    "email": "email, e-mail, mail address; contact email; billing email; support address; reply "
    "address; work email; login",
    "phone": "phone, telephone, call; mobile, cell phone; fax; hotline; emergency number; office "
    "phone; home phone; contact number",
    "url": "website, homepage, web page; link, URL; profile, profile page; documentation; "
    "repository; shop link; source; image link; video link",
    "version": "version, release, build; firmware; app version; required version; API version; "
    "software; driver version",
    "path": "file, file name; path; attachment; log file; folder path; config file; image file; "
    "script",
    "ipv4": "ip address, ip; host; server address; gateway; client ip; DNS server",
    "uuid": "uuid, unique id; session id; request id; trace id; device id; user id; correlation id",
    "color": "color, colour; paint; hair color; eye color; car colour; background; coat; finish; "
    "cover color",
    "language": "language, spoken language; written in; mother tongue, native language; subtitles; "
    "audio; translated into; locale language",
    "currency": "currency, paid in; account currency; billing currency; target currency",
    "weekday": "weekday, day of the week; closed on, closing day; market day; held every; "
    "collection day; delivery day",
    "month": "month, period; billing month; peak month; blooming month; harvest month; start month",
    "job": "job, occupation, profession; position, role; job title; former job; desired job; "
    "department head role; rank, function",
    "book": "book, title, book title; film, movie; song, track; painting, work of art, artwork; "
    "album; play; poem; article; exhibition; novel; series",
    "topic": "topic, subject, about; event, occasion; agenda; theme; course title; title; meeting "
    "subject; occasion",
    "issue": "problem, issue, defect; reason, cause; complaint; error message, error; fault; "
    "description, details; damage description; incident",
    "symptom": "symptom, complaint; side effect; reason for visit; allergy reaction",
    "diagnosis": "diagnosis, finding; disease, illness; injury; condition; medical history",
    "drug": "drug, medicine, medication; prescription; substance; treatment; painkiller; "
    "antibiotic",
    "food": "ingredient; food; allergy; topping; side dish; crop; favorite food; filling; main "
    "ingredient",
    "dish": "dish, meal; menu, main course; starter; dessert; recipe; speciality; lunch; dinner",
    "product": "product, item, article; object, thing; device, appliance; gift, present; tool; "
    "lost item; purchase; equipment; exhibit piece",
    "skill": "skill, ability; technology; tool used; certificate; requirement; expertise; subject "
    "taught",
    "team": "team, club; home team, home side; away team, visitors; opponent; winner team; league "
    "leader; favorite team",
    "word": """material, made of; category, kind, type; breed; species; genre; style; department, division; unit; brand name; flavor, taste; pattern; shape;
status text; mode; code name; keyword; nickname, alias; component, module; service; plan; tier; section; element; metal; fabric; wood; technique; method; format; protocol""",
    "phrase": """name, title, called; project, project name; model, model name; venue, hall; building; ship, vessel; street name; trail; park; plant, plant name;
horse; boat; festival; campaign; task; motto; slogan; headline; team name; room name; policy; course; trophy; street market; invention; group name""",
    "sentence": "note, remark, comment; summary, overview; description; message, text; "
    "instruction, hint; feedback; conclusion; abstract; quote; reason given; warning text",
    "bool": """paid, settled; approved, granted; available, in stock; active, enabled; verified, confirmed; urgent, rush; public, open to all; damaged, broken; insured;
married; vaccinated; organic; vegan; vegetarian; gluten free; waterproof; refundable; furnished; heated; smoker, smokes; licensed; certified; signed; sold; reserved, booked;
cancelled, called off; delayed, late; completed, finished; successful, success; failed; archived; deleted; visible; locked; encrypted; online; remote; indoor; outdoor;
accessible, step-free; pets allowed; breakfast included; free of charge; fragile; recyclable; rented; occupied, taken; recount, counted again; handmade; limited edition; first edition; overtime; tax included; subscribed; newsletter; returned; repaired; tested; required; optional; full time""",
    "enum(low=minor,medium=normal,high=serious)": "priority; severity; risk, risk level; "
    "importance; urgency; impact; difficulty; noise level; stress; demand",
    "enum(good=fine,fair=acceptable,poor=bad)": "condition, state; quality; health, state of "
    "health; air quality; road condition; reputation",
    "enum(open=not started,in_progress=under way,done=finished)": "status, state; progress; stage; "
    "phase; workflow state",
    "enum(small=little,medium=middle,large=big)": "size; portion size; package size; company size; "
    "format",
    "enum(bronze=entry,silver=standard,gold=premium)": "tier, level; membership; medal; package; "
    "ticket class; card type",
    "enum(cash=in notes,card=by card,transfer=by bank)": "payment method, paid by; means of "
    "payment; settlement",
    "enum(north,south,east,west)": "direction, heading; side; orientation, faces; wind from; wing; "
    "entrance side",
    "enum(morning=early,afternoon=after lunch,evening=late)": "part of day; shift; slot; preferred "
    "time",
    "enum(male=man,female=woman,other)": "gender, sex",
    "enum(single=unmarried,married=with spouse,divorced,widowed)": "marital status, family status",
}


def _groups() -> list[tuple[str, tuple[str, ...], str]]:
    """(type, synonyms, name) of every group without a held-out word."""
    held_out = set(HELD_OUT_WORDS)
    groups = []
    for kind, text in _TEXT.items():
        for group in text.replace("\n", " ").split(";"):
            words = tuple(
                word.strip()
                for word in group.split(",")
                if not held_out & set(word.lower().split())
            )
            if words:
                groups.append((kind, words, words[0].replace(" ", "_").replace("-", "_")))
    return groups


GROUPS = _groups()
_BY_TYPE: dict[str, list[int]] = {}
for _index, _group in enumerate(GROUPS):
    _BY_TYPE.setdefault(_group[0], []).append(_index)
_GENERATORS = {kind: generator(kind) for kind in _TEXT}
_TYPES = list(_BY_TYPE)
_WEIGHTS = [len(_BY_TYPE[kind]) ** 0.6 for kind in _TYPES]
UNEVEN = (
    "bool",
    "date",
    "time",
    "timestamp",
)  # their schemas differ from value to value, so no arrays of them
CHOICE_NAMES = (
    "category|kind",
    "type|sort",
    "class|group",
    "mode|setting",
    "status|state",
    "method|way",
    "style|look",
    "choice|option",
    "stage|phase",
    "role|function",
    "level|grade",
    "place|position",
    "section|area",
    "format|form",
    "reason|cause",
    "source|origin",
)
THINGS = "record note report form sheet entry card file document summary overview page profile listing notice list".split()


def typed_field(r: Random, kind: str) -> FieldSpec:
    """A field of `kind` named by one of its nouns, sometimes with a modifier before it."""
    _, words, name = GROUPS[r.choice(_BY_TYPE[kind])]
    if r.random() < 0.25:
        modifier = r.choice(MODIFIERS)
        words = tuple(f"{modifier} {word}" for word in words)
        name = f"{modifier}_{name}"
    labels = tuple(word[0].upper() + word[1:] for word in words)
    if len(labels) > 1 and r.random() < 0.5:
        labels = labels[:1] * (len(labels) - 1) + labels
    shape = "list" if r.random() < 0.06 and kind not in UNEVEN and "enum" not in kind else "leaf"
    text = r.choice(words) if r.random() < 0.7 else "the " + words[-1]
    return FieldSpec(name, shape, labels, text, r.random() < 0.06, _GENERATORS[kind])


def other_label(r: Random, spec: FieldSpec) -> str | None:
    """A noun of the same type as `spec` that means something else; None where the type is not one
    of these."""
    kinds = [kind for kind, made in _GENERATORS.items() if made is spec.generate]
    if not kinds:
        return None
    word = r.choice(GROUPS[r.choice(_BY_TYPE[kinds[0]])][1])
    return word[0].upper() + word[1:]


def _choice_field(r: Random) -> FieldSpec:
    """A field of random choices under a noun that fits any."""
    word = r.choice(CHOICE_NAMES)
    words = (
        tuple(r.choice(MODIFIERS) + " " + w for w in word.split("|"))
        if r.random() < 0.3
        else tuple(word.split("|"))
    )
    labels = tuple(w.capitalize() for w in words)
    return FieldSpec(words[0].replace(" ", "_"), "leaf", labels, words[-1], False, random_enum(r))


def typed_kind(r: Random) -> Kind:
    """A kind of 2 to 10 everyday nouns; half of the time no two of them have the same type."""
    count = r.choice((2, 3, 4, 4, 5, 5, 6, 6, 7, 8, 9, 10))
    kinds = r.choices(_TYPES, _WEIGHTS, k=count)
    choices = [_choice_field(r) for _ in range(r.choice((0, 0, 0, 1, 1, 2)))]
    if r.random() < 0.5:
        kinds = list(dict.fromkeys(kinds))
    fields: dict[str, FieldSpec] = {}
    for kind in kinds:
        made = typed_field(r, kind)
        fields[made.name] = made
    fields.update({made.name: made for made in choices})
    rows = list(fields.values())
    r.shuffle(rows)
    if len(rows) > 4 and r.random() < 0.2:
        uneven = [_GENERATORS[kind] for kind in UNEVEN]
        flat = tuple(
            f
            for f in rows[-3:]
            if f.shape == "leaf" and not f.optional and f.generate not in uneven
        )
        if flat:
            label = r.choice(
                (
                    "Items",
                    "Entries",
                    "Details",
                    "Lines",
                    "Positions",
                    "People",
                    "Results",
                    "Records",
                    "Parts",
                )
            )
            shape = "rows" if r.random() < 0.6 else "group"
            rows = [
                *rows[:-3],
                FieldSpec(label.lower(), shape, (label,), label.lower(), children=flat),
            ]
    return Kind(r.choice(THINGS), tuple(rows))
