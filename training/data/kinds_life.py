"""Hand-written document kinds from messages, health, travel and machines (notation:
`training.data.records`)."""

# ruff: noqa: E501
from training.data.records import Kind, parse_kind

KINDS: list[Kind] = [
    parse_kind(
        "email",
        """
        sender | person | From; Sender; Written by
        sender_email? | email | Sender address; From address; Reply-To
        recipient | person | To; Recipient; Addressed to
        subject | topic | Subject; Re; About
        sent_at | timestamp | Date; Sent; Sent at
        attachments | list:path | Attachments; Files; Attached
        meeting_date? | date | Meeting date; Proposed date; Meet on
        is_urgent | bool | Urgent; Important""",
        """From: {sender}[ <{sender_email}>]\\nTo: {recipient}\\nDate: {sent_at}\\nSubject: {subject}\\n\\nHi {recipient},\\nlet us talk about the {subject}[ on {meeting_date}]. {is_urgent?This cannot wait.:Take your time.}\\nBest, {sender}
        {sender} wrote to {recipient} at {sent_at} about {subject}. {is_urgent?It is urgent.:It is not urgent.}[ They want to meet on {meeting_date}.] Files: {attachments}.""",
        "{sender} writes to {recipient} about {subject}.",
    ),
    parse_kind(
        "event_notice",
        """
        event | topic | Event; What; Name
        venue | phrase | Venue; Where; Place
        city | city | City; Town
        date | date | Date; When; Day
        start_time | time | Start; Starts at; Doors open
        ticket_price | money | Tickets; Admission; Entry
        organizer | company | Organizer; Host; Hosted by
        capacity? | int(20,5000) | Capacity; Seats; Places
        outdoor | bool | Outdoor; Open air""",
        """{organizer} invites you to the {event} at {venue} in {city} on {date}, {start_time}. Entry is {ticket_price}.[ There is room for {capacity} people.] {outdoor?It takes place in the open air.:It takes place indoors.}
        Come to the {event}! {venue}, {city}. {date} from {start_time}. Tickets cost {ticket_price}. Host: {organizer}.""",
        "{event} in {city} on {date}.",
    ),
    parse_kind(
        "bug_report",
        """
        bug_id | code | Bug; Bug ID; Issue
        title | issue | Title; Summary; Problem
        component | word | Component; Module; Area
        version | version | Version; Found in; Release
        severity | enum(minor=small,major=serious,critical=blocker~severe,trivial=cosmetic) | Severity; Impact
        reporter | person | Reporter; Found by; Reported by
        steps | list:sentence | Steps; Steps to reproduce; How to reproduce
        operating_system? | enum(linux=Ubuntu,windows=Windows 11,macos=Mac,android,ios=iPhone) | OS; Operating system; Platform
        reproducible | bool | Reproducible; Always happens""",
        """{reporter} found in version {version} of {component}: {title} ({bug_id}). Severity: {severity}.[ Seen on {operating_system}.] {reproducible?It happens every time.:It happens only sometimes.}
        {bug_id}: {title}. Component {component}, release {version}, {severity} impact. To see it: {steps}. {reproducible?Always reproducible.:Not reproducible.} Thanks to {reporter}.""",
        "{bug_id}: {title} in {component}.",
    ),
    parse_kind(
        "medical_note",
        """
        patient.name | person | Name; Patient name
        patient.age | int(1,99) | Age; Years
        patient | | Patient; Case
        visit_date | date | Visit; Date of visit; Seen on
        doctor | person | Doctor; Physician; Seen by
        symptoms | list:symptom | Symptoms; Complaints; Complains of
        diagnosis | diagnosis | Diagnosis; Finding; Dx
        medications[].drug | drug | Drug; Medicine
        medications[].dose_mg | int(1,900,mg) | Dose; Dose (mg)
        medications[].times_per_day | int(1,4) | Per day; Times a day
        medications[] | | Medications; Prescription; Rx
        follow_up? | date | Follow-up; Next visit; Return on
        smoker | bool | Smoker; Smokes""",
        """{patient.name}, {patient.age}, was seen by {doctor} on {visit_date} with {symptoms}. Diagnosis: {diagnosis}. {smoker?Smoker.:Does not smoke.} Prescribed: {medications: {drug} {dose_mg}, {times_per_day} times a day}.[ Comes back on {follow_up}.]
        On {visit_date} {doctor} examined {patient.name} (age {patient.age}). The patient complains of {symptoms}; this is {diagnosis}.[ Next visit {follow_up}.] Takes {medications: {times_per_day} x {dose_mg} of {drug} daily}.""",
        "{patient.name} has {diagnosis}.",
    ),
    parse_kind(
        "recipe",
        """
        title | dish | Title; Recipe; Dish
        servings | int(1,12) | Servings; Serves; For
        prep_minutes | int(5,60,minutes,min) | Preparation; Prep time
        cook_minutes | int(5,180,minutes,min) | Cooking time; Cook; In the oven
        difficulty | enum(easy=simple,medium=moderate,hard=difficult) | Difficulty; Level
        ingredients[].name | food | Ingredient; Name
        ingredients[].amount | dec(0.5,9,1) | Amount; How much
        ingredients[].unit | enum(cup,g,ml,tbsp,tsp,piece) | Unit; Measure
        ingredients[] | | Ingredients; You need
        vegetarian | bool | Vegetarian; Meat-free""",
        """{title} for {servings} people takes {prep_minutes} to prepare and {cook_minutes} to cook. You need {ingredients: {amount} {unit} {name}}. It is {difficulty}. {vegetarian?There is no meat in it.:It contains meat.}
        How to make {title} ({difficulty}, serves {servings}): get {ingredients: {amount} {unit} of {name}}. Prepare for {prep_minutes}, then cook for {cook_minutes}.""",
        "{title}, a {difficulty} recipe for {servings}.",
    ),
    parse_kind(
        "flight_booking",
        """
        booking_code | code | Booking code; Reservation; PNR; Confirmation
        passenger | person | Passenger; Traveller; Name
        flight_number | code | Flight; Flight number; Flight no.
        origin | city | From; Departure; Origin; Leaving from
        destination | city | To; Destination; Arrival; Going to
        departure_date | date | Date; Departure date; Travel date
        departure_time | time | Time; Departs at; Departure time
        seat? | code | Seat; Seat number
        cabin | enum(economy=coach,business,first=first class) | Class; Cabin; Travel class
        checked_bags | int(0,4) | Bags; Checked bags; Luggage""",
        """{passenger} flies from {origin} to {destination} on {departure_date} at {departure_time}, flight {flight_number}, {cabin} class[, seat {seat}], with {checked_bags} checked bags. The booking code is {booking_code}.
        Your trip is confirmed ({booking_code}). {departure_date}, {departure_time}: {flight_number}, {origin} - {destination}, {cabin}.[ You sit in {seat}.] Traveller: {passenger}. Bags: {checked_bags}.
        Flight {flight_number} takes {passenger} to {destination}; it leaves {origin} on {departure_date} at {departure_time}. Code {booking_code}.""",
        "{passenger} flies from {origin} to {destination}.",
    ),
    parse_kind(
        "log_line",
        """
        timestamp | timestamp | Time; Timestamp; At
        level | enum(debug=DEBUG,info=INFO,warning=WARN,error=ERROR) | Level; Severity
        service | word | Service; App; Source
        host | ipv4 | Host; Address; IP
        message | issue | Message; Text; Event
        request_id? | uuid | Request ID; Trace; Request
        duration_ms | int(1,30000,ms) | Duration; Took; Elapsed
        status_code | int(200,511) | Status; Code; HTTP status""",
        """{timestamp} {level} [{service}] {host}: {message} status={status_code} took={duration_ms}[ req={request_id}]
        {timestamp} {host} {service} {level} - {message} ({status_code}, {duration_ms})[ {request_id}]
        At {timestamp} the service {service} on {host} logged {level}: {message}. The code was {status_code} after {duration_ms}.""",
        "{service} logged {message}.",
    ),
    parse_kind(
        "weather_report",
        """
        city | city | City; Place; Station
        date | date | Date; Day; For
        temperature_high | int(-15,42,C,degrees) | High; Maximum; Highest temperature
        temperature_low | int(-30,25,C,degrees) | Low; Minimum; Lowest temperature
        condition | enum(sunny=clear sky,cloudy=overcast,rain=rainy~showers,snow=snowfall,fog=misty) | Conditions; Sky; Weather
        wind_speed | int(0,140,km/h) | Wind; Wind speed
        humidity | percent | Humidity; Moisture
        warning? | phrase | Warning; Alert""",
        """On {date} {city} expects {condition} with a high of {temperature_high} and a low of {temperature_low}. Wind {wind_speed}, humidity {humidity}.[ Warning: {warning}.]
        {city}, {date}: {condition}. Between {temperature_low} and {temperature_high}, wind up to {wind_speed}, {humidity} humidity.""",
        "{condition} in {city} on {date}.",
    ),
    parse_kind(
        "book_record",
        """
        title | book | Title; Book
        author | person | Author; Written by; By
        year | year | Year; Published in; Published
        publisher | company | Publisher; Published by; House
        pages | int(60,1200,pages) | Pages; Length; Number of pages
        isbn | code | ISBN; Book number
        language? | language | Language; Written in
        genres | list:word | Genres; Categories; Shelved under
        available | bool | Available; On the shelf""",
        """"{title}" by {author} came out in {year} with {publisher}. It has {pages}, ISBN {isbn}.[ It is in {language}.] Genres: {genres}. {available?You can borrow it.:It is on loan.}
        {author}: {title}. {publisher}, {year}. {pages}. ISBN {isbn}. {available?On the shelf.:Lent out.}""",
        "{title} by {author}, {year}.",
    ),
    parse_kind(
        "sports_result",
        """
        home_team | team | Home; Home team; Hosts
        away_team | team | Away; Away team; Guests; Visitors
        home_score | int(0,9) | Home score; Goals home; Home goals
        away_score | int(0,9) | Away score; Goals away; Away goals
        date | date | Date; Played on
        stadium? | phrase | Stadium; Ground; Venue
        attendance | int(100,90000) | Attendance; Spectators; Crowd
        scorers | list:last | Scorers; Goals by; Scored
        overtime | bool | Overtime; Extra time""",
        """{home_team} played {away_team} {home_score}-{away_score} on {date}[ at {stadium}] before {attendance} people. Goals by {scorers}. {overtime?It went into extra time.:It ended in normal time.}
        {date}: {home_team} {home_score}, {away_team} {away_score}. Crowd: {attendance}.[ Ground: {stadium}.] {scorers} scored. {overtime?After extra time.:No extra time.}""",
        "{home_team} {home_score}, {away_team} {away_score}.",
    ),
    parse_kind(
        "lab_report",
        """
        sample_id | code | Sample; Sample ID; Specimen
        patient_name | person | Patient; Name; Taken from
        collected_on | iso | Collected; Collected on; Sample date
        tests[].test | word | Test; Analyte
        tests[].result | dec(0,300,1) | Result; Value
        tests[].unit | enum(mg/dL,mmol/L,g/L,%) | Unit; Units
        tests[] | | Tests; Results; Values
        technician | person | Technician; Done by; Analysed by
        abnormal | bool | Abnormal; Outside normal range""",
        """Sample {sample_id} of {patient_name}, collected {collected_on}, gave {tests: {test} {result} {unit}}. {technician} did the analysis. {abnormal?Some values are outside the normal range.:All values are normal.}
        {technician} analysed {sample_id} ({patient_name}, {collected_on}): {tests: {test} = {result} {unit}}. {abnormal?Abnormal.:Normal.}""",
        "Lab results for {patient_name}.",
    ),
    parse_kind(
        "hotel_reservation",
        """
        guest | person | Guest; Name; Reserved for
        hotel | company | Hotel; House; Property
        city | city | City; Location
        check_in | date | Check-in; Arrival; Arrives
        check_out | date | Check-out; Departure; Leaves
        nights | int(1,21) | Nights; Number of nights; Stay
        room_type | enum(single=one bed,double=for two,suite,family=family room) | Room; Room type; Category
        price_per_night | money | Price per night; Nightly rate; Rate
        breakfast | bool | Breakfast; With breakfast""",
        """{guest} stays at {hotel} in {city} from {check_in} to {check_out} ({nights} nights) in a {room_type} at {price_per_night} a night. {breakfast?Breakfast is included.:Breakfast is extra.}
        {hotel}, {city}: reservation for {guest}, {nights} nights. Arrival {check_in}, departure {check_out}. Room: {room_type}, {price_per_night} per night, {breakfast?with:without} breakfast.""",
        "{guest} stays at {hotel} in {city}.",
    ),
]
