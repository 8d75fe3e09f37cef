"""Hand-written document kinds that training never sees; evaluation measures them as left-out
kinds."""

# ruff: noqa: E501
from training.data.records import Kind, parse_kind

KINDS: list[Kind] = [
    parse_kind(
        "museum_loan",
        """
        artwork | book | Artwork; Work; Title of work
        artist | person | Artist; Made by; Painter
        lender | company | Lender; Lent by; On loan from
        borrower | company | Borrower; Lent to; Receiving museum
        loan_start | date | Loan starts; Leaves on; From
        loan_end | date | Loan ends; Back on; Until
        insured_value | money | Insured value; Insurance; Insured for
        condition | enum(good=fine,fair=acceptable,poor=bad) | Condition; State of the work
        framed | bool | Framed; With frame""",
        """{lender} lends "{artwork}" by {artist} to {borrower} from {loan_start} until {loan_end}. It is insured for {insured_value} and in {condition} condition. {framed?It travels with its frame.:It travels without a frame.}
        {borrower} receives the work {artwork}, painted by {artist}, from {lender}. The loan begins {loan_start} and ends {loan_end}. Insurance: {insured_value}.""",
        "{artwork} goes to {borrower}.",
    ),
    parse_kind(
        "parking_ticket",
        """
        ticket_number | code | Ticket number; Notice no.; Fine no.
        license_plate | code | License plate; Plate; Vehicle
        violation | enum(expired_meter=meter had run out,no_permit=without a permit,double_parking=parked in the second row,fire_lane=in front of a hydrant) | Violation; Offence
        street | street | Street; Where; Location
        issued_at | timestamp | Issued at; Time; Issued
        officer_badge | code | Officer; Badge; Badge number
        fine | money | Fine; To pay; Penalty
        contested | bool | Contested; Appealed""",
        """The car with plate {license_plate} stood at {street} at {issued_at} ({violation}). Officer {officer_badge} wrote ticket {ticket_number}; the fine is {fine}. {contested?The driver has appealed.:The driver accepts it.}
        Notice {ticket_number}: {violation} at {street}, plate {license_plate}. Pay {fine}. Badge {officer_badge}, {issued_at}.""",
        "Ticket {ticket_number} for {license_plate}.",
    ),
    parse_kind(
        "plant_care",
        """
        plant | phrase | Plant; Name; Species
        light | enum(full_sun=direct sun,partial_shade=half shade,shade=dark corner) | Light; Place it in
        water_every_days | int(1,30,days) | Water every; Watering interval; Watering
        height_cm | int(5,250,cm) | Height; Grows to; Size
        pot_diameter_cm | int(6,60,cm) | Pot; Pot diameter; Pot size
        toxic_to_pets | bool | Toxic to pets; Poisonous for animals
        fertilizer? | phrase | Fertilizer; Feed with
        months_of_bloom | list:month | Blooms in; Flowering months; Flowers""",
        """{plant} wants {light}. Water it every {water_every_days}. It grows to {height_cm} and needs a pot of {pot_diameter_cm}. It flowers in {months_of_bloom}.[ Feed it with {fertilizer}.] {toxic_to_pets?Keep it away from cats.:It does no harm to cats.}
        Caring for {plant}: {light}, water each {water_every_days}, pot {pot_diameter_cm}, height {height_cm}.[ Fertilizer: {fertilizer}.]""",
        "{plant} needs {light}.",
    ),
    parse_kind(
        "election_result",
        """
        district | city | District; Constituency; Ward
        election_date | date | Election date; Held on; Polling day
        registered_voters | int(1000,200000) | Registered voters; Electorate
        turnout_percent | percent | Turnout; Voter turnout
        winner | person | Winner; Elected; Seat goes to
        candidates[].name | person | Name; Candidate
        candidates[].party | company | Party; Ran for
        candidates[].votes | int(10,90000) | Votes; Ballots
        candidates[] | | Candidates; Results; Tally
        recount | bool | Recount; Counted again""",
        """In {district}, {winner} won the vote of {election_date}. Turnout was {turnout_percent} of {registered_voters} voters. Results: {candidates: {name} ({party}) {votes} votes}. {recount?The votes are being counted again.:The result is final.}
        {district}, {election_date}: {candidates: {votes} for {name} of {party}}. Elected: {winner}. Turnout {turnout_percent}.""",
        "{winner} won in {district}.",
    ),
    parse_kind(
        "space_launch",
        """
        mission | phrase | Mission; Mission name
        rocket | version | Rocket; Launcher; Launch vehicle
        launch_site | city | Launch site; Launched from; Pad
        launch_time | timestamp | Launch; Liftoff; Launch time
        payload.name | phrase | Name; Payload name
        payload.mass_kg | int(10,9000,kg) | Mass; Mass (kg)
        payload | | Payload; Cargo
        orbit | enum(LEO=low orbit,GEO=geostationary,lunar=around the moon) | Orbit; Goes to
        crew | list:person | Crew; Astronauts; On board
        success | bool | Success; Successful""",
        """Rocket {rocket} lifted off from {launch_site} at {launch_time} for mission {mission}, carrying {payload.name} ({payload.mass_kg}) to {orbit}. On board: {crew}. {success?Everything went well.:The launch failed.}
        Mission {mission}: {rocket}, {launch_site}, {launch_time}. Payload {payload.name}, mass {payload.mass_kg}, orbit {orbit}. {success?Successful.:Failed.}""",
        "{mission} launched from {launch_site}.",
    ),
    parse_kind(
        "gym_membership",
        """
        member | person | Member; Name; Belongs to
        member_id | code | Member ID; Card; Card number
        club | company | Club; Gym; Studio
        joined | date | Joined; Member since; Start
        level | enum(bronze=entry,silver=standard,gold=premium) | Level; Membership; Card type
        visits_this_month | int(0,31) | Visits this month; Check-ins; Visits
        trainer? | first | Trainer; Personal trainer; Coach
        locker? | int(1,400) | Locker; Locker number
        monthly_rate | money | Monthly rate; Fee; Per month
        frozen | bool | Frozen; On pause""",
        """{member} (card {member_id}) joined {club} on {joined} with a {level} membership for {monthly_rate} a month and came {visits_this_month} times this month.[ The trainer is {trainer}.][ Locker {locker}.] {frozen?The membership is on pause.:The membership is active.}
        {club} welcomes {member}. Level {level}, {monthly_rate} monthly, since {joined}. ID {member_id}. Visits: {visits_this_month}.""",
        "{member} trains at {club}.",
    ),
    parse_kind(
        "wine_tasting",
        """
        wine | phrase | Wine; Bottle; Name
        winery | company | Winery; Producer; Estate
        vintage | year | Vintage; Harvest
        region | city | Region; Grown in; Origin
        grape | word | Grape; Variety
        alcohol_percent | percent | Alcohol; Vol.
        score | int(70,100,points) | Score; Points; Rated
        taster | person | Taster; Tasted by; Judge
        aromas | list:word | Aromas; Smells of; Nose
        organic | bool | Organic; Bio""",
        """{taster} tasted the {vintage} {wine} from {winery} in {region} and gave it {score}. It is made of {grape} with {alcohol_percent} alcohol and smells of {aromas}. {organic?It is organic.:It is not organic.}
        {wine}, {winery}, {region}, {vintage}. Grape: {grape}. {alcohol_percent} alcohol. Aromas: {aromas}. {taster}: {score}.""",
        "{wine} from {winery}: {score}.",
    ),
    parse_kind(
        "building_permit",
        """
        permit_number | code | Permit; Permit number; File
        applicant | person | Applicant; Applied by; Builder
        site_address | address | Site; Building site; Site address
        project_type | enum(new_building=new construction,extension=annex,renovation=refurbishment,demolition=tearing down) | Project; Kind of work
        floors | int(1,40) | Floors; Storeys; IterationLayouts
        floor_area_m2 | int(20,9000,m2) | Floor area; Area
        estimated_cost | money | Estimated cost; Cost; Building cost
        architect? | person | Architect; Plans by; Drawn by
        decision_date | date | Decision date; Decided on; Decided
        granted | bool | Granted; Approved""",
        """{applicant} applied for permit {permit_number} to build at {site_address}: {project_type}, {floors} floors, {floor_area_m2}, about {estimated_cost}.[ The plans are by {architect}.] On {decision_date} the city decided: {granted?granted.:refused.}
        Permit {permit_number} ({project_type}) for {site_address}, decided {decision_date}. Applicant {applicant}, {floors} floors with {floor_area_m2}, cost {estimated_cost}. {granted?Approved.:Rejected.}""",
        "Permit {permit_number} for {applicant}.",
    ),
]
