"""Hand-written document kinds for the final measurement only: written after the training data was
fixed.

`kinds_held_out` served to find weaknesses while the generator was written; these kinds never did.
"""

# ruff: noqa: E501
from training.data.records import Kind, parse_kind

KINDS: list[Kind] = [
    parse_kind(
        "blood_donation",
        """
        donor | person | Donor; Donor name; Given by
        donor_number | code | Donor number; Donor ID; Donor no.
        blood_group | enum(A,B,AB,O) | Blood group; Blood type; Group
        donation_date | date | Donation date; Donated on; Date
        volume_ml | int(200,600,ml) | Volume; Amount taken; Volume (ml)
        hemoglobin | dec(9,19,1, g/dl) | Hemoglobin; Hb; Hb value
        collection_site | city | Collection site; Donated in; Site
        nurse | person | Nurse; Taken by; Attended by
        next_eligible? | date | Next donation; Eligible again; May return on
        accepted | bool | Accepted; Fit to donate""",
        """{donor} (donor {donor_number}, group {blood_group}) gave {volume_ml} of blood in {collection_site} on {donation_date}. The Hb value was {hemoglobin}. {nurse} was in attendance. {accepted?The donor was fit.:The donor was turned away.}[ The next donation is possible on {next_eligible}.]
        On {donation_date} nurse {nurse} received {donor} in {collection_site}. Number {donor_number}, blood group {blood_group}, {volume_ml}, hemoglobin {hemoglobin}.""",
        "{donor} gave blood in {collection_site}.",
    ),
    parse_kind(
        "podcast_episode",
        """
        show | phrase | Show; Podcast; Series
        episode_number | int(1,900) | Episode; Episode number; No.
        title | topic | Title; Episode title; Topic
        host | person | Host; Hosted by; Presenter
        guests | list:person | Guests; With; In the studio
        length_minutes | int(8,180,minutes,min) | Length; Duration; Runs
        published_on | date | Published; Release date; Out on
        download_link? | url | Link; Download; Listen at
        explicit | bool | Explicit; Strong language""",
        """Episode {episode_number} of {show} is out since {published_on}: {host} talks with {guests} about {title} for {length_minutes}.[ Listen at {download_link}.] {explicit?Contains strong language.:Safe for children.}
        {show}, no. {episode_number}: "{title}". {host} welcomes {guests}. {length_minutes}, {published_on}.[ {download_link}]""",
        "{show} {episode_number}: {title}.",
    ),
    parse_kind(
        "elevator_inspection",
        """
        elevator_id | code | Elevator; Elevator ID; Lift no.
        building_address | address | Building; Address; Installed at
        inspector | person | Inspector; Inspected by; Checked by
        inspection_date | date | Inspection date; Inspected on; Date
        max_load_kg | int(200,3000,kg) | Maximum load; Max. load; Carries up to
        stops_served | int(2,60) | Stops; Floors served; Number of stops
        defects[].part | word | Part; Component
        defects[].severity | enum(minor,major,critical) | Severity; Class
        defects[] | | Defects; Faults; Findings
        passed | bool | Passed; Test passed""",
        """{inspector} checked lift {elevator_id} at {building_address} on {inspection_date}. It serves {stops_served} stops and carries up to {max_load_kg}. Faults: {defects: {part} ({severity})}. {passed?The lift may run.:The lift must stay shut.}
        Lift {elevator_id}, {building_address}: inspected {inspection_date} by {inspector}, load {max_load_kg}, {stops_served} stops. Found: {defects: {severity} fault in {part}}.""",
        "Lift {elevator_id} inspected on {inspection_date}.",
    ),
    parse_kind(
        "visa_application",
        """
        application_no | code | Application no.; Application number; File
        surname | last | Surname; Family name; Last name
        given_name | first | Given name; First name; Forename
        nationality | country | Nationality; Citizen of; Citizenship
        passport_no | code | Passport no.; Passport; Travel document
        visa_type | enum(tourist=holiday,business=work meetings,student=studies,transit=passing through) | Visa type; Category; Type of visa
        entry_date | date | Date of entry; Entry; Arrives
        stay_days | int(1,180,days) | Stay; Length of stay; Days
        fee_paid | money | Fee paid; Fee; Charge
        rejected_before | bool | Rejected before; Earlier refusal""",
        """{given_name} {surname}, citizen of {nationality} with passport {passport_no}, asks for a {visa_type} visa (application {application_no}) to enter on {entry_date} for {stay_days}. A fee of {fee_paid} was paid. {rejected_before?An earlier request was refused.:There was no earlier refusal.}
        Application {application_no}: {surname}, {given_name}; {nationality}; passport {passport_no}; {visa_type}; entry {entry_date}; {stay_days}; fee {fee_paid}.""",
        "Visa request of {given_name} {surname}.",
    ),
    parse_kind(
        "wildlife_sighting",
        """
        animal | word | Animal; Species; Seen animal
        number_seen | int(1,90) | Number seen; Count; How many
        observer | person | Observer; Spotted by; Observed by
        spotted_at | timestamp | Spotted at; Time; Observed
        park | phrase | Park; Reserve; Area
        latitude | dec(-80,80,4) | Latitude; Lat; Lat.
        longitude | dec(-170,170,4) | Longitude; Lon; Long.
        behavior | enum(feeding=eating,resting=asleep,moving=on the move,nesting=building a nest) | Behavior; Activity; Doing
        juveniles | bool | Juveniles; With young
        remarks? | sentence | Remarks; Notes; Also seen""",
        """{observer} spotted {number_seen} {animal} in {park} at {spotted_at} (position {latitude}, {longitude}). They were {behavior}. {juveniles?There were young among them.:All were adults.}[ {remarks}]
        {spotted_at}, {park}: {animal} x{number_seen}, {behavior}. Lat {latitude}, lon {longitude}. Seen by {observer}.[ Remarks: {remarks}]""",
        "{number_seen} {animal} in {park}.",
    ),
    parse_kind(
        "equipment_rental",
        """
        contract | code | Contract; Rental contract; Agreement no.
        tool | product | Tool; Equipment; Machine
        hirer.name | person | Name; Hirer name
        hirer.phone | phone | Phone; Mobile
        hirer | | Hirer; Customer; Rented to
        pickup | date | Pick-up; Collected on; From
        return_by | date | Return by; Bring back by; Until
        day_rate | money | Day rate; Per day; Daily price
        deposit_held | money | Deposit; Security; Held deposit
        accessories | list:word | Accessories; Extras; Comes with
        fuel_included | bool | Fuel included; With fuel""",
        """{hirer.name} ({hirer.phone}) rents the {tool} from {pickup} and brings it back by {return_by}. It costs {day_rate} a day; we keep {deposit_held} as security. Extras: {accessories}. {fuel_included?Fuel is included.:Bring your own fuel.} Contract {contract}.
        Contract {contract}: {tool}, {pickup} to {return_by}, {day_rate} per day, deposit {deposit_held}. Hirer: {hirer.name}, {hirer.phone}.""",
        "{hirer.name} rents a {tool}.",
    ),
    parse_kind(
        "chess_game",
        """
        white | person | White; White player; White pieces
        black | person | Black; Black player; Black pieces
        white_rating | int(900,2850) | White rating; White Elo; Elo (white)
        black_rating | int(900,2850) | Black rating; Black Elo; Elo (black)
        opening | phrase | Opening; Opening name; ECO name
        moves | int(9,140) | Moves; Number of moves; Length
        result | enum(white_wins=1-0,black_wins=0-1,draw=half a point each) | Result; Outcome; Score
        tournament | topic | Tournament; Event; Played at
        played_on | date | Played on; Date; Day
        time_control? | duration | Time control; Time per player; Clock
        online_game | bool | Online; Played online""",
        """At the {tournament} on {played_on}, {white} (Elo {white_rating}) with the white pieces met {black} (Elo {black_rating}). After {opening} and {moves} moves the result was {result}.[ Each side had {time_control}.] {online_game?The game was played online.:The game was played over the board.}
        {white} {white_rating} - {black} {black_rating}, {tournament}, {played_on}. Opening: {opening}. {moves} moves, {result}.""",
        "{white} against {black}: {result}.",
    ),
    parse_kind(
        "water_bill",
        """
        household | person | Household; Bill for; Account holder
        meter_id | code | Meter; Meter ID; Water meter
        period_start | iso | Period from; From; Start of period
        period_end | iso | Period to; To; End of period
        consumption_m3 | int(2,400,m3) | Consumption; Used; Water used
        price_per_m3 | dec(0.5,6,2) | Price per m3; Unit price; Rate per m3
        fixed_charge | dec(2,60,2) | Fixed charge; Base fee; Standing charge
        amount_due | money | Amount due; To pay; Please pay
        due_by | date | Due by; Pay until; Payable by
        payment_status | enum(open=unpaid,paid=settled,overdue=late) | Payment status; Status; State
        estimated_reading | bool | Estimated reading; Estimated""",
        """{household}, between {period_start} and {period_end} your meter {meter_id} counted {consumption_m3}. At {price_per_m3} per m3 and a standing charge of {fixed_charge} this makes {amount_due}, payable by {due_by}. The bill is {payment_status}. {estimated_reading?The reading is an estimate.:The meter was read.}
        Water bill for {household}, meter {meter_id}, {period_start} to {period_end}: {consumption_m3}, rate {price_per_m3}, base fee {fixed_charge}, please pay {amount_due} until {due_by} ({payment_status}).""",
        "Water bill of {household}: {amount_due}.",
    ),
]
