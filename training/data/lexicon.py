"""Word lists that the task generator draws from, and the words that are kept out of training.

`HELD_OUT_WORDS` never occur in the names of procedurally composed training schemas; evaluation on
left-out schemas uses only them.
"""

# ruff: noqa: E501, SIM905
FIRST_NAMES = """Maria James Aisha Chen Olga Pedro Lena Tom Priya Noah Emma Yuki Omar Sofia Liam Grace Ivan Fatima Hugo
Nina Carlos Mei Anders Zoe Samuel Ingrid Rahul Clara Dmitri Leila Peter Hana Marco Julia Kofi Amelia Felix Rosa Viktor
Anna Diego Sara Lukas Amara Ben Chloe David Elif Finn Gita Henrik Isabel Jonas Katya Luca Miriam Nadia Oscar Paula
Quentin Ruth Stefan Tara Umar Vera Wei Ximena Yusuf Zara Alan Bridget Cyrus Dora Ethan Freya Gareth Helen Idris Joan
Kevin Laura Martin Nora Oliver Petra Rita Simon Teresa Ursula Victor Wendy Arjun Beatriz Colin Daniela Eric""".split()
LAST_NAMES = """Lopez Smith Khan Wei Petrova Silva Fischer Baker Patel Johnson Brown Tanaka Hassan Rossi Murphy Kelly
Novak Ali Martin Berg Garcia Lin Larsen Klein Owusu Nilsson Gupta Weber Volkov Haddad Jones Sato Bianchi Schmidt Mensah
Clark Dubois Torres Ivanov Moreau Reyes Kowalski Yilmaz Okafor Evans Adams Horvath Jensen Keller Marino Nakamura Ortiz
Quinn Romero Santos Turner Ueda Vargas Walker Xu Young Zhang Abbott Barnes Carter Dawson Ellis Foster Grant Hughes
Ingram Jacobs Knight Lambert Mason Nash Osborne Pierce Ross Stone Tucker Vaughn West Yates Becker Costa Duarte""".split()
CITIES = """Oslo|Rome|Berlin|Lisbon|Nairobi|Toronto|Lima|Osaka|Dublin|Austin|Prague|Cairo|Mumbai|Seoul|Madrid|Boston|
Vienna|Quito|Porto|Leeds|Denver|Zurich|Accra|Hanoi|Perth|Ghent|Turin|Malmo|Tampa|Kyoto|Lyon|Bergen|New York|San Diego|
Cape Town|Buenos Aires|Hong Kong|Los Angeles|Tel Aviv|Kuala Lumpur|Rio de Janeiro|Salt Lake City|Bristol|Chicago|Dakar|
Edmonton|Florence|Geneva|Helsinki|Istanbul|Jakarta|Kingston|London|Manila|Naples|Ottawa|Phoenix|Quebec|Riga|Sydney|
Tokyo|Utrecht|Valencia|Warsaw|York|Zagreb|Antwerp|Brisbane|Cologne|Dallas|Paris|Munich|Bogota|Athens|Lagos""".replace(
    "\n", ""
).split("|")
COUNTRIES = """Norway|Italy|Germany|Portugal|Kenya|Canada|Peru|Japan|Ireland|United States|Czech Republic|Egypt|India|
South Korea|Spain|Austria|Ecuador|Switzerland|Ghana|Vietnam|Australia|Belgium|Sweden|France|Mexico|Brazil|Chile|Turkey|
Poland|Greece|Nigeria|Finland|Denmark|Netherlands|New Zealand|Argentina|Morocco|Thailand|Iceland|Hungary""".replace(
    "\n", ""
).split("|")
STREETS = """Main High Oak Maple Station Park Church Mill River Hill Lake Elm Cedar Market King Queen Bridge Garden Pine
Spring Harbour North South Castle School Victoria Chestnut Willow Birch Meadow""".split()
STREET_KINDS = "Street St. Road Avenue Lane Drive Way Square Close Boulevard".split()
COMPANY_WORDS = """Acme Globex North Blue Vertex Nova Summit Pioneer Atlas Orion Delta Harbor Cedar Bright Quantum Silver
Apex Nimbus Falcon Evergreen Polar Cobalt Horizon Lumen Zephyr Granite Coral Aurora Titan Willow Kestrel Meridian Onyx
Ember Juniper Solstice Ridge Cascade Beacon Copper Maple Indigo Vector Prism Terra Velo Arbor Crestline""".split()
COMPANY_ENDS = """Ltd|Inc.|GmbH|LLC|Group|Labs|Systems|Foods|Logistics|Partners|Media|Energy|Health|Motors|Bank|Studio|
Supplies|Software|Consulting|& Sons|Industries|Books|Airlines|Pharma|Works|Trading|AG|Co.|Tools|Networks""".replace(
    "\n", ""
).split("|")
ADJECTIVES = """red blue green black white small large wireless portable steel wooden cotton leather digital smart compact
heavy light organic fresh ceramic folding electric classic soft bright quiet plain round square double slim warm cold
waterproof adjustable magnetic solar vintage modern""".split()
PRODUCTS = """lamp chair desk keyboard mouse monitor kettle backpack jacket bottle notebook pen speaker charger cable
headphones camera tent bicycle helmet toaster blender mug towel pillow blanket mirror shelf drill hammer screwdriver
battery router printer tablet phone watch clock wallet umbrella scarf gloves boots sandals table sofa cushion curtain
filter pump valve bracket hinge bolt gasket sensor switch plug adapter fan heater scale thermometer""".split()
FOODS = """flour|sugar|butter|eggs|milk|salt|olive oil|garlic|onion|tomatoes|rice|pasta|chicken breast|carrots|potatoes|
cream|basil|lemon|honey|yeast|cheese|mushrooms|spinach|beans|lentils|ginger|cinnamon|vanilla|chocolate|oats|apples|
coconut milk|soy sauce|paprika|thyme|parsley|celery|leeks|salmon|shrimp|tofu|peppers""".replace(
    "\n", ""
).split("|")
DISHES = """Lemon Pasta|Tomato Soup|Apple Pie|Chicken Curry|Mushroom Risotto|Banana Bread|Lentil Stew|Greek Salad|
Vegetable Lasagne|Fish Tacos|Pumpkin Soup|Beef Goulash|Carrot Cake|Shakshuka|Pad Thai|Onion Tart|Bean Chili|
Rice Pudding|Potato Gratin|Spinach Quiche""".replace("\n", "").split("|")
SKILLS = """Python|Go|SQL|Java|Rust|C++|Excel|Docker|Kubernetes|Linux|AWS|Photoshop|project management|negotiation|welding|
first aid|copywriting|data analysis|React|TypeScript|Figma|public speaking|accounting|machine learning|teaching|CAD|
bookkeeping|event planning|translation|customer service|carpentry|nursing|SEO|testing|networking|Spark|Terraform""".replace(
    "\n", ""
).split("|")
JOBS = """software engineer|data analyst|nurse|project manager|accountant|teacher|electrician|chef|graphic designer|
sales manager|warehouse worker|product manager|mechanic|pharmacist|librarian|civil engineer|receptionist|lawyer|
marketing specialist|technician|driver|translator|architect|research assistant|consultant|plumber|editor|
security officer|dentist|store manager""".replace("\n", "").split("|")
LANGUAGES = """English French Spanish German Italian Arabic Hindi Japanese Korean Portuguese Russian Turkish Polish Dutch
Swedish Greek Mandarin Swahili""".split()
COLORS = "red blue green black white yellow orange purple pink brown grey silver gold beige navy teal".split()
CURRENCIES = "USD EUR GBP JPY CHF SEK NOK CAD AUD INR".split()
MONTHS = (
    "January February March April May June July August September October November December".split()
)
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
TOPICS = """budget review|team lunch|product launch|annual report|office move|security training|holiday schedule|
server migration|customer survey|hiring plan|contract renewal|website redesign|quarterly results|travel policy|
new parking rules|board meeting|charity run|software update|broken printer|missing delivery|login problem|
refund request|late payment|price increase|design workshop|data backup|health check|music festival|book club|
photo exhibition|science fair|summer camp|cooking class|chess tournament|garden tour""".replace(
    "\n", ""
).split("|")
ISSUES = """app crashes on start|page does not load|cannot log in|wrong total shown|button does nothing|slow search|
email not sent|image is blurry|payment fails|file upload stops|screen stays black|sound is missing|date is wrong|
text overlaps|link is broken|memory leak after an hour|export is empty|password reset loops|settings are lost|
map shows wrong place|duplicate entries appear|notification arrives twice|printer is offline|battery drains fast|
package arrived damaged|item is missing|invoice has the wrong address|delivery is late""".replace(
    "\n", ""
).split("|")
DRUGS = """ibuprofen|amoxicillin|metformin|aspirin|lisinopril|paracetamol|omeprazole|atorvastatin|cetirizine|insulin|
prednisone|albuterol|naproxen|warfarin|losartan""".replace("\n", "").split("|")
DIAGNOSES = """migraine|bronchitis|sprained ankle|high blood pressure|type 2 diabetes|seasonal allergy|back pain|tonsillitis|
iron deficiency|asthma|sinus infection|eczema|gastritis|insomnia|wrist fracture""".replace(
    "\n", ""
).split("|")
SYMPTOMS = """fever|cough|headache|nausea|dizziness|fatigue|sore throat|rash|chest pain|swelling|shortness of breath|
stomach pain|blurred vision|joint pain|loss of appetite""".replace("\n", "").split("|")
BOOK_WORDS = """The Silent River|A Winter Harvest|Letters from the Coast|The Clockmaker|Shadows of Glass|Beyond the Hill|
The Last Orchard|Salt and Stone|An Honest Map|The Paper Garden|Night Ferry|The Long Echo|City of Rain|Small Engines|
The Copper Key|Under Northern Stars|A Field Guide to Quiet|The Borrowed Year""".replace(
    "\n", ""
).split("|")
SENTENCE_BITS = """Please check the details before you reply.|Thanks for your patience.|This message was sent automatically.|
Let me know if anything is unclear.|The office is closed on public holidays.|Prices may change without notice.|
Keep this for your records.|See the attached file for more.|We look forward to hearing from you.|
Nothing else was reported.|The previous note no longer applies.|Terms and conditions apply.|Have a good day!|
This is a corrected version.|Do not forward.|Everyone was on time.|It was a busy week.|
The weather stayed dry for most of the day.|Parking is behind the building.|Coffee will be provided.""".replace(
    "\n", ""
).split("|")
WORDS = """river paper garden window market signal bridge summer silver pocket corner forest kitchen engine travel winter
letter number person circle basket candle copper dinner family finger flower ground island ladder leather machine market
memory mirror morning mountain music night office orange palace pencil people planet pepper pillow planet powder prince
record rocket school season second shadow sister spider spring square station stream street string summer system table
temple thread thunder ticket timber tomato tunnel valley velvet village violin wagon water weather willow window winter
wonder yellow anchor branch bucket button camera canvas carbon castle cheese church coffee cotton dragon eagle feather
field flame forest frost gate glass harbor honey horse lemon light metal olive ocean panel pearl plant radio ribbon""".split()

SYLLABLES = """ba be bi bo bra bri ca ce chi co cra da de di do dra e fa fe fi fo ga ge gi go gra ha he hi ho i ja je jo ka ke ki
ko kra la le li lo lu ma me mi mo mu na ne ni no nu o pa pe pi po pra ra re ri ro ru sa se sha she si so sta ste ta te
ti to tra tri u va ve vi vo wa we wi xa ya yo za ze zi zo ker lin son ton mar ven dal ner vik sen quin bor gan hol mund
ford wick stad dorf ville mont bury ham""".split()

# Procedural names are composed as MODIFIER + NOUN; both lists are split into trained and held-out
# words.
MODIFIERS = """inlet outlet primary backup internal external daily weekly total average maximum minimum current previous next
first last main local remote front rear upper lower left right initial final target actual expected planned measured
reported assigned default preferred secondary temporary permanent public private shared spare original updated active
scheduled approved net gross base extra standard custom manual automatic emergency regional national nominal peak idle
outer inner central""".split()
NOUNS = """pressure temperature speed owner operator manager supplier code badge label color size weight height width depth
count limit rate price cost fee budget score grade level stage phase status state mode type category group team
department branch office site building room floor zone region sector address location place route station gate dock
platform lane vehicle device machine engine pump valve sensor panel meter tank pipe cable motor battery filter cartridge
model version serial batch lot series edition reference ticket order request claim permit license contract agreement
policy plan project task job shift session course lesson exam lecture workshop event festival concert match tournament
season round player coach captain author editor publisher artist composer title subject topic theme summary note remark
comment reason cause result outcome finding diagnosis treatment dose therapy symptom patient doctor nurse clinic ward
crop seed soil harvest yield animal breed species habitat colony vessel captain crew cargo port voyage flight pilot
passenger seat cabin luggage ticket deposit balance loan payment invoice account currency tax discount refund salary
bonus wage pension share stock fund asset voltage current frequency power energy capacity duration interval delay
timeout deadline start end arrival departure opening closing renewal expiry inspection audit review approval signature
witness tenant landlord buyer seller agent broker client customer visitor guest member sponsor donor volunteer student
teacher school college degree certificate award prize medal rank channel frequency signal antenna server cluster node
port protocol database table record field folder file backup archive image photo video album track playlist genre""".split()
HELD_OUT_WORDS = """turbine reservoir ledger curator gallery exhibit sculpture lantern compass anchor harbor lighthouse orchard
vineyard cellar barrel bottle recipe bakery oven kiln furnace smelter alloy ingot quarry shaft tunnel bridge culvert
glacier summit trail ranger campsite canoe paddle saddle stable jockey referee umpire stadium anthem flag embassy
consul treaty senator ballot district verdict juror statute warden parole telescope orbit satellite crater probe payload
thruster hangar runway beacon buoy""".split()
SYNONYMS = {
    "cost": "price",
    "price": "cost",
    "fee": "charge",
    "owner": "holder",
    "manager": "supervisor",
    "speed": "velocity",
    "count": "number",
    "limit": "cap",
    "rate": "ratio",
    "score": "points",
    "location": "place",
    "place": "location",
    "address": "location",
    "start": "beginning",
    "end": "finish",
    "duration": "length",
    "delay": "lag",
    "job": "work",
    "task": "assignment",
    "note": "remark",
    "remark": "note",
    "comment": "note",
    "reason": "cause",
    "cause": "reason",
    "result": "outcome",
    "outcome": "result",
    "subject": "topic",
    "topic": "subject",
    "author": "writer",
    "customer": "client",
    "client": "customer",
    "buyer": "purchaser",
    "seller": "vendor",
    "salary": "pay",
    "wage": "pay",
    "deadline": "due date",
    "departure": "leaving",
    "arrival": "coming in",
    "vehicle": "car",
    "device": "unit",
    "machine": "equipment",
    "category": "kind",
    "type": "kind",
    "status": "state",
    "state": "status",
    "maximum": "highest",
    "minimum": "lowest",
    "average": "mean",
    "total": "overall",
    "current": "present",
    "previous": "earlier",
    "next": "following",
    "first": "earliest",
    "last": "latest",
    "main": "principal",
    "primary": "main",
    "backup": "reserve",
    "initial": "starting",
    "final": "ending",
    "internal": "in-house",
    "temporary": "interim",
    "extra": "additional",
    "spare": "reserve",
    "expected": "predicted",
    "team": "crew",
    "doctor": "physician",
    "student": "pupil",
    "award": "prize",
    "guest": "visitor",
    "picture": "photo",
    "company": "firm",
    "region": "area",
    "zone": "area",
    "weight": "mass",
    "size": "dimension",
    "title": "heading",
    "summary": "overview",
    "deposit": "down payment",
    "discount": "reduction",
    "version": "release",
    "code": "identifier",
    "reference": "ref",
    "temperature": "temp",
}
