"""Everyday properties with the ways prose tells them; random sets of them make prose documents of
no fixed kind.

A line is `name | type | labels | sentence / sentence …`, where `{}` stands for the value and
`{yes:no}` for a boolean.
"""

# ruff: noqa: E501, SIM905
from __future__ import annotations

from random import Random

from training.data.records import FieldSpec, Kind
from training.data.value_types import generator

_LINES = """
author | person | Author; Written by; Writer | It was written by {}. / {} is the author. / The text is by {}. / {} wrote it.
creator | person | Creator; Made by; Maker | {} made it. / It is the work of {}. / It was created by {}.
owner | person | Owner; Belongs to; Property of | It belongs to {}. / {} owns it. / The owner is {}. / {} is its owner.
seller | person | Seller; Sold by; From | {} sells it. / It is sold by {}. / You buy it from {}.
buyer | person | Buyer; Bought by; Purchaser | {} bought it. / It went to {} as the buyer. / It was purchased by {}.
manager | person | Manager; Managed by; In charge; Responsible | {} is in charge. / It is led by {}. / {} manages it. / {} is responsible.
assistant | person | Assistant; Helper; Supported by | {} helps out. / Support comes from {}. / {} assists.
approver | person | Approved by; Approver; Signed off by | {} approved it. / It was signed off by {}. / {} gave the approval.
winner | person | Winner; Won by; First place | {} won. / First place went to {}. / The winner was {}.
guest_name | person | Guest; Visitor; Visited by | {} was the guest. / {} came for a visit. / We welcomed {}.
teacher | person | Teacher; Taught by; Instructor | {} teaches it. / The lessons are given by {}. / {} is the teacher.
witness | person | Witness; Seen by; Observed by | {} saw it happen. / It was seen by {}. / The only witness is {}.
sender | person | Sender; From; Sent by | {} sent it. / It comes from {}. / The sender is {}.
recipient | person | Recipient; To; Addressed to | It is addressed to {}. / {} receives it. / It is meant for {}. / It was sent to {}.
contact_person | person | Contact; Contact person; Ask for | Ask for {}. / The contact is {}. / For questions turn to {}.
driver | person | Driver; Driven by | {} was driving. / {} sat at the wheel. / It is driven by {}.
company | company | Company; Firm; Business | The company behind it is {}. / {} stands behind it. / It is a project of {}.
employer | company | Employer; Works for; Employed by | They work for {}. / {} employs them. / The employer is {}.
manufacturer | company | Manufacturer; Maker; Brand; Produced by | {} produces it. / It is made by {}. / The brand is {}.
sponsor | company | Sponsor; Sponsored by; Paid by | {} pays for it. / It is sponsored by {}. / The money comes from {}.
partner | company | Partner; Together with; Partner company | It is done together with {}. / {} is the partner. / They cooperate with {}.
origin | city | Origin; From; Starting point; Departure city | It starts in {}. / It leaves {}. / They set out from {}. / It comes from {}.
destination | city | Destination; To; Goal; Going to | It goes to {}. / It is bound for {}. / The destination is {}. / They travel to {}.
birthplace | city | Birthplace; Born in; Place of birth | They were born in {}. / {} is where they were born.
residence | city | Residence; Lives in; Home town | They live in {}. / Home is {}. / They are based in {}.
headquarters | city | Headquarters; Head office; Based in | The head office is in {}. / It has its headquarters in {}.
location | city | Location; Place; Where; Held in | It takes place in {}. / You find it in {}. / The place is {}. / It is located in {}.
country | country | Country; Nation; Land | It lies in {}. / The country is {}. / This happened in {}.
nationality | country | Nationality; Citizen of; Passport | They hold a passport of {}. / They are a citizen of {}.
street_address | address | Address; Street address; Where | The address is {}. / You find us at {}. / It stands at {}.
email | email | Email; E-mail; Mail address | Write to {}. / Mail goes to {}. / You can reach them at {}. / The mail address is {}.
phone | phone | Phone; Telephone; Call; Mobile | Call {}. / The phone number is {}. / Dial {} for help. / They answer the phone at {}.
website | url | Website; Homepage; Link | See {}. / More is on {}. / The website is {}. / Visit {}.
start_date | date | Start date; Starts; Begins; From | It starts on {}. / It begins {}. / The first day is {}. / From {} on it is open.
end_date | date | End date; Ends; Until; Last day | It ends on {}. / It runs until {}. / The last day is {}. / It is over on {}.
birth_date | date | Date of birth; Born; Birthday | They were born on {}. / The date of birth is {}. / Born {}.
deadline | date | Deadline; Due; Due date; No later than | It is due on {}. / The deadline is {}. / Hand it in by {}. / No later than {}.
created_on | date | Created; Created on; Date of creation | It was created on {}. / It dates from {}. / It was made on {}.
delivered_on | date | Delivered; Delivery date; Arrived on | It was delivered on {}. / It arrived on {}. / They received it on {}.
expires_on | date | Expires; Expiry date; Valid until | It expires on {}. / It is valid until {}. / After {} it no longer counts.
purchased_on | date | Purchased; Purchase date; Bought on | It was bought on {}. / The purchase was made on {}.
start_time | time | Start time; From; Opens at | It starts at {}. / The doors open at {}. / It begins at {}.
end_time | time | End time; Until; Closes at | It ends at {}. / It closes at {}. / It is over at {}.
price | money | Price; Cost; Costs | It costs {}. / The price is {}. / You pay {}. / It is sold for {}.
budget | money | Budget; Funds; Available money | The budget is {}. / They may spend {}. / There is {} to spend.
deposit | money | Deposit; Down payment; Paid in advance | A deposit of {} is needed. / {} is paid in advance.
salary | money | Salary; Pay; Wage | The salary is {}. / They earn {}. / It pays {}.
debt | money | Debt; Owes; Outstanding | They owe {}. / A debt of {} remains. / {} is outstanding.
discount | percent | Discount; Price cut; Reduction | There is a discount of {}. / You save {}. / The price was cut by {}.
growth | percent | Growth; Increase; Up by | It grew by {}. / That is an increase of {}. / It went up by {}.
share | percent | Share; Portion; Part | Its share is {}. / It makes up {} of all. / They hold {} of it.
age | int(1,99,years) | Age; Years old | The age is {}. / It has been around for {}. / They are {} old.
height_cm | int(20,250,cm) | Height; Tall; Height in cm | It stands {} tall. / The height is {}. / It measures {} from top to bottom.
weight_kg | dec(0.5,200,1, kg,kg) | Weight; Mass; Weighs | It weighs {}. / The weight is {}. / On the scale it shows {}.
length_m | dec(0.5,90,1, m,m) | Length; Long | It is {} long. / The length is {}. / From end to end it has {}.
distance_km | int(1,9000,km) | Distance; Far; Kilometres | The distance is {}. / It is {} away. / They covered {}.
speed_kmh | int(3,300,km/h) | Speed; Velocity; Pace | It moves at {}. / The speed is {}. / It reached {}.
temperature | int(-30,120,C,degrees) | Temperature; Temp | It was {} there. / The temperature was {}. / The thermometer showed {}.
duration_minutes | int(2,400,minutes,min) | Duration; Takes; Lasts; Length | It takes {}. / It lasts {}. / It went on for {}.
capacity | int(5,9000,people) | Capacity; Room for; Holds | It has room for {}. / It holds {}. / Up to {} fit in.
participants | int(2,9000) | Participants; Attendance; Taking part | {} took part. / There were {} participants. / {} people came.
quantity | int(1,900,pieces) | Quantity; Amount; Number | There are {} of them. / The quantity is {}. / They ordered {}.
pages | int(4,1200,pages) | Pages; Length | It has {}. / You read {}. / It fills {}.
rooms | int(1,40,rooms) | Rooms; Number of rooms | There are {} rooms in it. / It has {} rooms. / The number of rooms is {}.
score | int(0,100,points) | Score; Points; Result | It scored {}. / The score is {}. / It earned {}.
rating | rating | Rating; Stars; Rated | It was rated {}. / People give it {}. / The rating is {}.
founded | year | Founded; Since; Year of foundation | It was founded in {}. / It exists since {}. / {} was the year it was founded.
built_in | year | Built; Year built; Constructed | It was built in {}. / Construction ended in {}. / The building dates from {}.
color | color | Color; Colour; Painted | It is {}. / The color is {}. / It was painted {}. / It comes in {}.
language | language | Language; Spoken; Written in | It is in {}. / They speak {}. / The language is {}.
profession | job | Profession; Job; Works as; Occupation | They work as a {}. / By profession they are a {}. / The job is {}.
topic | topic | Topic; Subject; About | It is about the {}. / The topic is the {}. / We talked about the {}.
title | phrase | Title; Name; Called | It is called {}. / The title is {}. / Its name is {}. / People call it {}.
reference | code | Reference; Reference number; Ref; Number | The reference is {}. / Please quote {}. / It is filed under {}. / We keep it as {}.
serial_number | code | Serial number; Serial; S/N | The serial number is {}. / On the back it says {}. / Its serial is {}.
room | code | Room; Room number; In room | It is in room {}. / The room is {}. / Go to room {}.
version | version | Version; Release; Build | The version is {}. / It runs release {}. / It was updated to {}.
weekday | weekday | Day; Weekday; Every | It is held on {}. / Every {} it takes place. / The day is {}.
reason | issue | Reason; Cause; Because | The reason: {}. / It was caused by this: {}. / Why? {}.
material | word | Material; Made of | It is made of {}. / The material is {}. / They used {} for it.
ingredients | list:food | Ingredients; Contains; Made with | It contains {}. / It is made with {}. / You need {}.
members | list:person | Members; Team; Group | The group consists of {}. / Members are {}. / {} belong to the team.
tags | list:word | Tags; Keywords; Labels | It is tagged {}. / Keywords: {}. / It goes under {}.
skills | list:skill | Skills; Abilities; Knows | They know {}. / Skills include {}. / They are good at {}.
stops | list:city | Stops; Via; Stations | It stops in {}. / The way leads through {}. / Stops: {}.
paid | bool | Paid; Settled | It {has been paid:has not been paid}. / The money {has arrived:has not arrived}. / It is {settled:still unpaid}.
available | bool | Available; In stock | It is {available:not available}. / You {can get it now:cannot get it now}. / It is {in stock:sold out}.
active | bool | Active; Running; Enabled | It is {running:switched off}. / It is {active:no longer active}. / It {works:does not work}.
refundable | bool | Refundable; Money back | The money {is given back:is not given back}. / It is {refundable:not refundable}.
verified | bool | VerifyOutput; Confirmed; Checked | It {was verified:was not verified}. / This is {confirmed:not confirmed}. / {Someone:Nobody} checked it.
public | bool | Public; Open to all | It is {open to everyone:private}. / {Anyone may come:Only members may come}. / It is {public:not public}.
damaged | bool | Damaged; Broken | It {is damaged:is undamaged}. / It {was broken on arrival:was fine on arrival}. / It {shows damage:shows no damage}.
married | bool | Married | They are {married:single}. / They {have a spouse:are not married}.
pets_allowed | bool | Pets allowed; Animals welcome | Pets {are allowed:are not allowed}. / You {may bring:may not bring} your dog. / Animals {are welcome:must stay outside}.
priority | enum(low=minor,medium=normal,high=urgent) | Priority; Importance | The priority is {}. / We treat it as {}. / Its priority was set to {}.
status | enum(open=pending,in_progress=being worked on,done=finished~completed) | Status; State; Progress | The status is {}. / It is {}. / Its state: {}.
size | enum(small=tiny,medium=mid-sized,large=big) | Size; How big | The size is {}. / It is {} in size. / We took the {} one.
gender | enum(female=woman,male=man,other=nonbinary) | Gender; Sex | Gender: {}. / The person is registered as {}.
season | enum(spring,summer,autumn=fall,winter) | Season; Time of year | It happens in {}. / The season is {}. / It is planned for {}.
payment_method | enum(cash=notes and coins,card=credit card,transfer=bank transfer) | Payment method; Paid by; Payment | Payment was made by {}. / They paid by {}. / The payment method is {}.
transport | enum(car=by road,train=by rail,plane=by air,ship=by sea,bike=bicycle) | Transport; Travels by; Means of transport | They use {}. / The means of transport is {}. / The trip is made with {}.
lender | company | Lender; Lent by; On loan from | {} lends it. / It is on loan from {}. / {} gave it as a loan. / They borrowed it from {}.
borrower | company | Borrower; Lent to; Borrowed by | It was lent to {}. / {} borrows it. / {} has it on loan.
applicant | person | Applicant; Applied by | {} applied for it. / The application came from {}. / {} filed the application.
member | person | Member; Member name | {} is a member. / {} joined. / The card is made out to {}. / We welcome {} as a new member.
examiner | person | Examiner; Tested by; Examined by | {} tested it. / {} examined it. / It was tried by {}. / {} gave the verdict.
leader | person | Leader; Head; Led by | {} leads it. / At the head is {}. / Under {} it went on.
victim | person | Victim; Injured person; Hurt | {} was hurt. / {} was taken to hospital. / The injured person is {}.
hero | person | Hero; Rescuer; Saved by | {} came to help. / {} saved the day. / Thanks go to {}.
client | person | Client; Customer; For | It was done for {}. / {} ordered it. / The client is {}. / {} hired us.
artist | person | Artist; Painter; Made by | {} painted it. / The artist is {}. / It comes from the hand of {}.
speaker | person | Speaker; Talk by; Presented by | {} gave the talk. / {} spoke. / On stage was {}.
candidate | person | Candidate; Runs for office; Contender | {} runs for it. / {} is a candidate. / People can vote for {}.
insurer | company | Insurer; Insured with | It is insured with {}. / {} covers the damage.
carrier | company | Carrier; Shipped with; Brought by | {} ships it. / It travels with {}. / {} brings it to the door.
club | company | Club; Plays for; Trains at | They play for {}. / They train at {}. / The club is {}.
publisher | company | Publisher; Published by | {} published it. / It appeared with {}. / The publisher is {}.
landlord | company | Landlord; Rented from | It is rented from {}. / {} is the landlord. / {} lets it.
opponent | team | Opponent; Against; Rival team | They played against {}. / The opponent was {}. / It was a match with {}.
launch_place | city | Launch place; Launched from; Taking off from | It lifted off from {}. / It was launched in {}. / The launch was in {}.
grown_in | city | Grown in; Region; Comes from | It is grown in {}. / It comes from the area of {}. / It ripens near {}.
joined_on | date | Joined; Member since; Entry date | They joined on {}. / They have been there since {}. / They came on board on {}.
left_on | date | Left; Exit date; Until | They left on {}. / Their last day was {}. / They stayed until {}.
decided_on | date | Decided; Decision date | The decision fell on {}. / On {} the decision was made. / It was decided on {}.
inspected_on | date | Inspected; Inspection date; Checked on | It was inspected on {}. / The inspection was on {}. / On {} it was checked.
opened_on | date | Opened; Opening date | It opened on {}. / The opening was on {}. / On {} the doors opened.
loaned_until | date | Return date; Back on; Loan ends | It must be back on {}. / It returns on {}. / The loan ends {}.
happened_at | timestamp | Time; Happened at; Recorded | It happened at {}. / At {} it was noted. / It was recorded {}.
fine_amount | money | Fine; Penalty; To pay | The fine is {}. / A penalty of {} is due. / They must pay {} as a fine.
value | money | Value; Worth; Valued at | It is worth {}. / Its value is put at {}. / It is valued at {}.
insured_sum | money | Insured for; Insurance sum; Covered up to | It is insured for {}. / The insurance covers {}. / In case of loss {} is paid.
rent | money | Rent; Monthly rent; Per month | The rent is {}. / They pay {} a month. / It goes for {} per month.
prize | money | Prize; Prize money; Award | The prize is {}. / The winner gets {}. / {} waits for the winner.
revenue | money | Revenue; Sales; Turnover | They sold for {}. / It brought in {}. / Sales came to {}.
attendance_rate | percent | Turnout; Attendance rate | The turnout was {}. / {} of the people came.
alcohol | percent | Alcohol; Strength; Vol. | It has {} alcohol. / The alcohol is {}. / Its strength is {}.
interest | percent | Interest; Interest rate | The interest is {}. / They pay {} in interest. / At a rate of {}.
floors | int(1,60,floors) | Floors; Storeys; IterationLayouts | It has {}. / It is {} high. / The building counts {}.
area_m2 | int(10,9000,m2) | Area; Floor area; Surface | It covers {}. / The area is {}. / It has {} of space.
visits | int(0,400,times) | Visits; Check-ins; Number of visits | They came {} this month. / They visited {}. / They were here {}.
votes | int(10,90000,votes) | Votes; Ballots | They got {}. / {} went to them. / They received {}.
interval_days | int(1,60,days) | Interval; Every; Days between | It is repeated every {}. / Do it every {}. / There are {} between two rounds.
diameter_cm | int(2,300,cm) | Diameter; Across; Width | It is {} across. / It has a diameter of {}. / The opening measures {}.
vintage_year | year | Year; From the year; Harvest | It is from {}. / The year on the label is {}. / It was harvested in {}.
license_plate | code | License plate; Plate; Registration | The plate reads {}. / It carries the plate {}. / The car is registered as {}.
membership_number | code | Membership number; Card number; Member ID | The card number is {}. / The membership runs under {}. / On the card it says {}.
officer_number | code | Officer number; Badge; Staff number | Officer {} was on duty. / It was issued by number {}. / Badge {} signed it.
permit | code | Permit; Permit number; File number | The permit is {}. / It was allowed under {}. / The file carries number {}.
locker | int(1,600) | Locker; Locker number; Box | Locker {} is theirs. / They use locker {}. / The key is for locker {}.
vehicle | phrase | Vehicle; Vessel; Craft | It travels on the {}. / The vessel is the {}. / They took the {}.
project | phrase | Project; Mission; Undertaking | The mission is called {}. / It is part of {}. / They work on {}.
variety | word | Variety; Sort; Breed | It is of the {} variety. / The sort is {}. / They chose {} as the variety.
cargo | phrase | Cargo; Load; Carries | It carries {}. / On board is {}. / It is loaded with {}.
offence | issue | Offence; Violation; Complaint | The complaint: {}. / What went wrong: {}. / The case is about this: {}.
hints | list:word | Notes; Aromas; Hints | It smells of {}. / There are hints of {}. / One can make out {}.
months | list:month | Months; Season; In the months of | It happens in {}. / The months are {}. / You see it in {}.
crew | list:person | Crew; On board; Staff | On board are {}. / The crew is {}. / {} travel with it.
granted | bool | Granted; Approved; Allowed | It was {granted:refused}. / They said {yes:no}. / The request was {approved:rejected}.
successful | bool | Successful; Success; Worked | It {worked:failed}. / It was a {success:failure}. / {Everything went well:It went wrong}.
dangerous | bool | Dangerous; Harmful | It is {dangerous:harmless}. / {Keep away from it:It does no harm}. / It is {harmful:safe}.
paused | bool | Paused; On hold; Suspended | It is {on hold:running}. / It {was paused:goes on}. / It is {suspended:in force}.
appealed | bool | Appealed; Objected | They {have appealed:accept it}. / They {object:do not object}. / They {went to court:paid at once}.
repeated | bool | Repeated; Done again | It {is done again:is final}. / They {repeat it:do not repeat it}.
packed | bool | Packed; In a box; With cover | It comes {with a cover:without a cover}. / It {is packed:is not packed}. / It travels {in a box:without a box}.
eco | bool | Ecological; Green; Sustainable | It {is green:is not green}. / It {carries the eco label:has no eco label}.
shape_state | enum(good=fine,fair=acceptable,poor=bad) | Condition; State; Shape | It is in {} condition. / Its condition is {}. / It looks {}.
rank | enum(bronze=basic,silver=standard,gold=premium) | Rank; Tier; Membership level | They have the {} card. / The tier is {}. / It is a {} membership.
level | enum(beginner=starter,intermediate=middle,advanced=expert) | Level; Skill level | The level is {}. / It is meant for {} people. / Their level: {}.
"""


def _spec(line: str) -> tuple[FieldSpec, tuple[str, ...]]:
    name, kind, labels, sentences = (part.strip() for part in line.split("|", 3))
    shape, item = ("list", kind[5:]) if kind.startswith("list:") else ("leaf", kind)
    words = tuple(label.strip() for label in labels.split(";"))
    slot = "{" + name
    told = tuple(
        s.strip().replace("{}", slot + "}") if "{}" in s else s.strip().replace("{", slot + "?")
        for s in sentences.split(" / ")
    )
    description = name.replace("_", " ")
    return FieldSpec(name, shape, words, description, False, generator(item)), told


SEMANTIC = [_spec(line) for line in _LINES.strip().splitlines()]
THINGS = "notice note report entry file summary card message memo letter post statement update record form".split()


def semantic_kind(r: Random) -> Kind:
    """A kind of 2 to 8 random everyday properties with a prose template of their sentences."""
    chosen = r.sample(SEMANTIC, r.randint(2, 8))
    order = chosen[:]
    r.shuffle(order)
    sentences = [r.choice(told) for _, told in order]
    for index in range(len(sentences) - 1):
        a, b = sentences[index], sentences[index + 1]
        if (
            r.random() < 0.25
            and a.endswith(".")
            and b.startswith(("It ", "The ", "They ", "There "))
        ):
            sentences[index] = ""
            sentences[index + 1] = (
                a[:-1] + r.choice((", and ", " and ", "; ", ", while ")) + b[0].lower() + b[1:]
            )
    text = (
        r.choice((" ", " ", " ", "\\n"))
        .replace("\\n", "\n")
        .join(sentence for sentence in sentences if sentence)
    )
    return Kind(r.choice(THINGS), tuple(spec for spec, _ in chosen), (text[0].upper() + text[1:],))
