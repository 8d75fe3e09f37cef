"""Hand-written document kinds from learning, leisure and daily life (notation:
`training.data.records`)."""

# ruff: noqa: E501
from training.data.records import Kind, parse_kind

KINDS: list[Kind] = [
    parse_kind(
        "vehicle_record",
        """
        plate | code | Plate; Licence plate; Registration
        make | company | Make; Brand; Manufacturer
        model | phrase | Model; Type
        year | year | Year; Built; First registered
        mileage_km | int(0,320000,km) | Mileage; Odometer; Driven
        fuel | enum(petrol=gasoline,diesel,electric=battery,hybrid) | Fuel; Engine; Drive
        owner | person | Owner; Keeper; Registered to
        last_service? | date | Last service; Serviced; Last check
        accident_free | bool | Accident free; No accidents""",
        """{owner} drives a {make} {model} from {year} with the plate {plate}. It runs on {fuel} and has done {mileage_km}.[ It was serviced on {last_service}.] {accident_free?It never had an accident.:It had an accident.}
        For sale: {make} {model}, built {year}, {mileage_km}, {fuel}. Plate {plate}, keeper {owner}. {accident_free?No accidents.:Repaired after an accident.}""",
        "{make} {model} of {owner}.",
    ),
    parse_kind(
        "course",
        """
        course_code | code | Course code; Code; Course no.
        title | phrase | Title; Course; Name
        instructor | person | Instructor; Teacher; Taught by; Lecturer
        department? | word | Department; Faculty; School
        credits | int(1,12) | Credits; Credit points; ECTS
        weekday | weekday | Day; Weekday; Held on
        start_time | time | Time; Starts; Begins at
        students_enrolled | int(3,400) | Enrolled; Students; Participants
        prerequisites | list:code | Prerequisites; Requires
        online | bool | Online; Remote""",
        """{instructor} teaches {title} ({course_code}) every {weekday} at {start_time}. It brings {credits} credits and has {students_enrolled} students.[ It belongs to {department}.] {online?It is held online.:It is held on campus.}
        {course_code} {title}: {weekday}, {start_time}, {credits} credits, lecturer {instructor}. Before it take {prerequisites}. {students_enrolled} enrolled.""",
        "{title} with {instructor}.",
    ),
    parse_kind(
        "movie_review",
        """
        movie | book | Film; Movie; Title
        director | person | Director; Directed by
        release_year | year | Released; Year
        reviewer | first | Reviewer; Review by; Critic
        stars | rating | Stars; Rating; Score
        runtime_minutes | int(60,210,minutes,min) | Runtime; Length; Duration
        cast | list:person | Cast; With; Actors
        sentiment | enum(positive=loved it,negative=hated it,mixed=so-so) | Sentiment; Verdict; Opinion
        recommended | bool | Recommended; Worth seeing""",
        """{reviewer} saw {movie} ({release_year}) by {director} and gave it {stars}. With {cast}. It runs {runtime_minutes}. Verdict: {sentiment}. {recommended?Go and see it.:Stay at home.}
        "{movie}", directed by {director} in {release_year}, stars {cast}. {reviewer}: {sentiment}, {stars}. Length {runtime_minutes}.""",
        "{reviewer} on {movie}: {sentiment}.",
    ),
    parse_kind(
        "contact_card",
        """
        name | person | Name; Full name; Contact
        company? | company | Company; Works at; Organisation
        job_title? | job | Title; Job; Position
        phones[].kind | enum(home=private,work=office,mobile=cell) | Kind; Type
        phones[].number | phone | Number; No.
        phones[] | | Phones; Phone numbers; Telephone
        email | email | E-mail; Email; Mail
        address.street | street | Street; Street address
        address.city | city | City; Town
        address.country? | country | Country; Land
        address | | Address; Home; Post
        birthday? | date | Birthday; Born; Date of birth
        website? | url | Website; Web; Homepage""",
        """{name}[ works at {company}][ as {job_title}] and lives at {address.street}, {address.city}[, {address.country}]. Mail {email}, phones: {phones: {number} ({kind})}.[ Born {birthday}.][ See {website}.]
        You can write to {name} at {email} or call {phones: {kind} {number}}.[ Employer: {company}.] Post goes to {address.street} in {address.city}[ ({address.country})].[ Birthday: {birthday}.]""",
        "{name}, {email}.",
    ),
    parse_kind(
        "doctor_appointment",
        """
        patient | person | Patient; For; Name
        clinic | company | Clinic; Practice; Where
        doctor | last | Doctor; Dr.; With
        date | date | Date; Day; On
        time | time | Time; At; Hour
        reason | symptom | Reason; Because of; Concern
        first_visit | bool | First visit; New patient
        reminder_phone? | phone | Reminder to; Phone; SMS""",
        """{patient} sees Dr. {doctor} at {clinic} on {date} at {time} because of {reason}. {first_visit?It is the first visit.:They have been there before.}[ A reminder goes to {reminder_phone}.]
        Appointment confirmed: {date}, {time}, {clinic}, Dr. {doctor}. Patient {patient}, reason {reason}. {first_visit?New patient.:Known patient.}""",
        "{patient} sees Dr. {doctor} on {date}.",
    ),
    parse_kind(
        "sensor_reading",
        """
        device_id | code | Device; Device ID; Sensor
        location | phrase | Location; Placed in; Room
        measured_at | timestamp | Measured at; Time; Reading time
        temperature_c | dec(-20,60,1, C,C) | Temperature; Temp
        humidity_percent | percent | Humidity; Rel. humidity
        battery_level | int(0,100) | Battery; Battery level; Charge
        alarm | bool | Alarm; Alarm raised
        firmware? | version | Firmware; Software""",
        """Device {device_id} in {location} measured {temperature_c} and {humidity_percent} humidity at {measured_at}. The battery stands at {battery_level}.[ Firmware {firmware}.] {alarm?An alarm was raised.:No alarm.}
        {measured_at} {device_id} ({location}): temp {temperature_c}, humidity {humidity_percent}, battery {battery_level}, alarm {alarm?on:off}[, fw {firmware}]""",
        "{device_id} measured {temperature_c}.",
    ),
    parse_kind(
        "commit_message",
        """
        commit | token | Commit; Hash; SHA
        author.name | person | Name; Author name
        author.email | email | Email; Mail
        author | | Author; Committer
        date | timestamp | Date; Committed; When
        branch | word | Branch; On branch
        message | sentence | Message; Subject; Log
        files_changed | list:path | Files; Changed files; Touched
        insertions | int(0,900) | Insertions; Added lines; Lines added
        deletions | int(0,900) | Deletions; Removed lines; Lines removed""",
        """commit {commit} ({branch})\\nAuthor: {author.name} <{author.email}>\\nDate: {date}\\n\\n    {message}\\n\\n{files_changed}: {insertions} insertions, {deletions} deletions
        {author.name} ({author.email}) pushed {commit} to {branch} on {date}: {message} It adds {insertions} lines and removes {deletions} in {files_changed}.""",
        "{author.name} committed: {message}",
    ),
    parse_kind(
        "train_ticket",
        """
        ticket_no | code | Ticket; Ticket number; Ticket no.
        traveller | person | Traveller; Passenger; Name
        from_station | city | From; Start; Departs
        to_station | city | To; Goal; Arrives in
        train | code | Train; Train number; Service
        travel_date | date | Date; Travel date; Valid on
        departs | time | Departure; Leaves at; Departs at
        coach? | int(1,20) | Coach; Car; Wagon
        price | money | Fare; Price; Paid
        return_trip | bool | Return; Round trip""",
        """Train {train} leaves {from_station} at {departs} on {travel_date} for {to_station}. Ticket {ticket_no} for {traveller}[, coach {coach}], fare {price}. {return_trip?The way back is included.:One way only.}
        {traveller} goes by train from {from_station} to {to_station} ({train}, {travel_date}, {departs}) and paid {price}. Ticket: {ticket_no}.""",
        "{traveller} takes {train} to {to_station}.",
    ),
    parse_kind(
        "pet_record",
        """
        pet_name | first | Pet; Name; Called
        species | enum(dog=puppy,cat=kitten,rabbit,bird=parrot,hamster) | Species; Animal; Kind
        breed? | phrase | Breed; Race
        age_years | int(1,20,years) | Age; Years
        weight_kg | dec(0.2,60,1, kg) | Weight; Weighs
        owner.name | person | Name; Owner name
        owner.phone | phone | Phone; Tel
        owner | | Owner; Belongs to
        vaccinated | bool | Vaccinated; Vaccines up to date
        chip_number? | code | Chip; Microchip; Chip no.""",
        """{pet_name} is a {species}[ ({breed})], {age_years} old, and weighs {weight_kg}. It belongs to {owner.name}, phone {owner.phone}. {vaccinated?It has had its vaccines.:It has not been vaccinated.}[ Chip {chip_number}.]
        {owner.name} ({owner.phone}) brought a {species} called {pet_name}, age {age_years}, weight {weight_kg}. {vaccinated?Vaccinated.:Not vaccinated.}""",
        "{pet_name}, a {species} of {owner.name}.",
    ),
    parse_kind(
        "news_item",
        """
        headline | phrase | Headline; Title
        reporter | person | Reporter; By; Author
        outlet | company | Outlet; Paper; Source
        published | date | Published; Date; Appeared
        location | city | Location; Place; From
        people | list:person | People; Persons named; Mentions
        category | enum(politics=government,business=economy,sports=football,culture=arts,science=research) | Category; Section; Desk
        casualties? | int(0,40) | Casualties; Injured""",
        """{location} ({outlet}) - {headline}. {people} took part, reports {reporter} on {published}.[ {casualties} people were hurt.] Section: {category}.
        {headline}\\nBy {reporter}, {outlet}, {published}\\n{location}: {people} met here. Filed under {category}.""",
        "{headline}, {outlet}.",
    ),
    parse_kind(
        "survey_response",
        """
        respondent_age | int(16,95) | Age; Respondent age; How old are you?
        country | country | Country; Where do you live?
        satisfaction | int(1,10) | Satisfaction; How satisfied are you? (1-10); Score
        favorite_product | product | Favorite product; What do you like best?; Best liked
        would_recommend | bool | Would recommend; Would you recommend us?
        channels | list:word | Channels; Where did you hear of us?
        comment? | sentence | Comment; Anything else?; Remarks""",
        """A person aged {respondent_age} from {country} gave {satisfaction} of 10 points and liked the {favorite_product} best. They heard of us through {channels}. {would_recommend?They would recommend us.:They would not recommend us.}[ They added: {comment}]
        I am {respondent_age} and live in {country}. My score is {satisfaction}. I love the {favorite_product}. {would_recommend?I would tell my friends.:I would not tell my friends.}[ {comment}]""",
        "Survey answer from {country}: {satisfaction} of 10.",
    ),
    parse_kind(
        "playlist",
        """
        playlist | phrase | Playlist; Name; Title
        created_by | first | Created by; By; Curator
        tracks[].title | book | Title; Song
        tracks[].artist | person | Artist; By
        tracks[].seconds | int(90,600) | Seconds; Length
        tracks[] | | Tracks; Songs
        followers | int(0,90000) | Followers; Fans
        public | bool | Public; Visible to all""",
        """{created_by} made the playlist {playlist}: {tracks: {title} by {artist} ({seconds} seconds)}. It has {followers} followers. {public?Everyone can see it.:It is private.}
        Playlist {playlist} ({followers} followers) from {created_by} has {tracks: {artist} with {title}, {seconds} s}.""",
        "{playlist} by {created_by}.",
    ),
    parse_kind(
        "lost_item",
        """
        item | product | Item; Lost; Object
        color | color | Color; Colour
        found_at | phrase | Found at; Place; Where
        found_on | date | Found on; Date; Day
        finder | person | Finder; Found by; Handed in by
        finder_phone? | phone | Phone; Call; Contact
        claimed | bool | Claimed; Picked up""",
        """{finder} found a {color} {item} at {found_at} on {found_on}. {claimed?The owner has it back.:Nobody has asked for it.}[ Call {finder_phone}.]
        A {item} ({color}) was handed in by {finder}; it lay at {found_at} on {found_on}.[ Phone: {finder_phone}.] {claimed?Picked up.:Still here.}""",
        "{color} {item} found at {found_at}.",
    ),
]
