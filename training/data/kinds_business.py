"""Hand-written document kinds from trade, work and money (notation: `training.data.records`)."""

# ruff: noqa: E501
from training.data.records import Kind, parse_kind

KINDS: list[Kind] = [
    parse_kind(
        "invoice",
        """
        invoice_number | code | Invoice number; Invoice no.; Invoice #; Document no. | identifier of the invoice
        vendor.name | company | Name; Company
        vendor.city? | city | City; Town
        vendor | | Vendor; Supplier; Seller; From
        customer | person | Customer; Bill to; Billed to; Client | who has to pay
        issue_date | date | Date; Issue date; Issued; Invoice date
        due_date? | date | Due date; Payable by; Due
        items[].description | product | Description; Item; Article
        items[].quantity | int(1,30) | Quantity; Qty; Units
        items[].unit_price | dec(1,400,2) | Unit price; Price; Price each
        items[] | | Items; Line items; Positions
        total | money | Total; Amount due; Grand total; Total amount | amount to pay
        paid | bool | Paid; Settled | whether it has been paid""",
        """Invoice {invoice_number} from {vendor.name}[ in {vendor.city}] to {customer}, issued {issue_date}[, due {due_date}]. It covers {items: {quantity} x {description} at {unit_price}}. Total: {total}. {paid?It has been paid.:Payment is still open.}
        {vendor.name} billed {customer} {total} on {issue_date} (invoice {invoice_number}). The lines are {items: {description}, {quantity} pieces, {unit_price} each}.[ Please pay before {due_date}.] {paid?The money has arrived.:Nothing has been received so far.}
        Dear {customer},\\nplease find invoice {invoice_number} of {issue_date} over {total}[, payable until {due_date}].\\nRegards, {vendor.name}[, {vendor.city}]""",
        "Invoice {invoice_number} to {customer} over {total}.",
    ),
    parse_kind(
        "purchase_order",
        """
        order_id | code | Order number; Order ID; PO number; PO #
        buyer | company | Buyer; Ordered by; Customer; Purchaser
        supplier | company | Supplier; Vendor; Seller
        order_date | date | Order date; Placed on; Date
        lines[].sku | code | SKU; Article number
        lines[].product | product | Product; Item
        lines[].quantity | int(1,500) | Quantity; Qty; Count
        lines[] | | Order lines; Lines; Articles
        shipping_method? | enum(air=by plane~air freight,sea=by ship,road=by truck,rail=by train) | Shipping; Ship via; Transport
        urgent | bool | Urgent; Rush order""",
        """{buyer} ordered from {supplier} on {order_date} under {order_id}: {lines: {quantity} of {product} ({sku})}.[ Goods travel {shipping_method}.] {urgent?This is a rush order.:There is no hurry.}
        Purchase order {order_id}, {order_date}. We, {buyer}, ask {supplier} to deliver {lines: {product} (article {sku}, {quantity} units)}.[ Transport: {shipping_method}.]""",
        "Order {order_id} from {buyer} to {supplier}.",
    ),
    parse_kind(
        "bank_transaction",
        """
        booking_date | date | Booking date; Date; Booked
        counterparty | company | Counterparty; Payee; Merchant; Partner
        amount | money | Amount; Sum; Value
        currency | currency | Currency; Cur.
        direction | enum(debit=outgoing~money out,credit=incoming~money in) | Direction; Type; Side
        reference? | code | Reference; Ref.; Purpose
        balance? | money | Balance; New balance; Balance after""",
        """On {booking_date} a {direction} transaction of {amount} in {currency} with {counterparty} was booked[, reference {reference}].[ The balance is now {balance}.]
        {booking_date} {counterparty} {direction} {amount} {currency}[ ref {reference}][ bal {balance}]""",
        "{direction} of {amount} with {counterparty} on {booking_date}.",
    ),
    parse_kind(
        "contract",
        """
        title | phrase | Title; Subject; Contract
        parties | list:company | Parties; Between; Signatories
        start_date | date | Start date; Effective date; In force from; Begins
        end_date? | date | End date; Expires; Valid until; Ends
        monthly_fee? | money | Monthly fee; Fee per month; Monthly payment
        notice_period_days | int(7,180) | Notice period; Notice (days); Days of notice
        auto_renewal | bool | Automatic renewal; Renews automatically
        governing_law | country | Governing law; Law; Jurisdiction""",
        """The contract "{title}" between {parties} takes effect on {start_date}[ and expires on {end_date}]. {auto_renewal?It renews by itself.:It does not renew by itself.} Either side may leave with {notice_period_days} days' notice.[ The fee is {monthly_fee} a month.] The law of {governing_law} applies.
        {parties} agreed on {title}. It begins {start_date}[, ends {end_date}], and is subject to the law of {governing_law}.[ Each month {monthly_fee} is paid.] Notice: {notice_period_days} days. {auto_renewal?Renewal is automatic.:There is no renewal.}""",
        "Contract on {title} from {start_date}.",
    ),
    parse_kind(
        "job_advert",
        """
        position | job | Position; Role; Job title; We are hiring
        employer | company | Employer; Company; Organisation
        location | city | Location; Place of work; City
        remote | bool | Remote; Remote possible; Home office
        salary_min | int(20000,80000) | Salary from; Minimum salary
        salary_max | int(80001,160000) | Salary up to; Maximum salary
        skills | list:skill | Skills; Requirements; You know
        contact_email? | email | Contact; Apply to; E-mail
        deadline? | date | Deadline; Apply by; Closing date""",
        """{employer} is looking for a {position} in {location}. {remote?You can work from home.:You work in the office.} We pay between {salary_min} and {salary_max} a year. You know {skills}.[ Write to {contact_email}][ by {deadline}.]
        Join {employer} as {position}! {location}, {remote?remote possible:on site only}. You bring {skills}. Pay: {salary_min} to {salary_max}.[ Applications to {contact_email}.][ We close on {deadline}.]""",
        "{employer} hires a {position} in {location}.",
    ),
    parse_kind(
        "resume",
        """
        full_name | person | Name; Full name; Candidate; Applicant
        email? | email | E-mail; Email; Mail
        phone? | phone | Phone; Tel.; Mobile
        city | city | City; Lives in; Residence
        current_title | job | Current job; Title; Profession
        years_experience | int(1,40,years) | Experience; Years of experience
        skills | list:skill | Skills; Knows; Abilities
        languages | list:language | Languages; Speaks
        jobs[].employer | company | Employer; Company; At
        jobs[].role | job | Role; Position; As
        jobs[].start_year | year | Since; From; Start
        jobs[] | | Work history; Employment; Jobs""",
        """{full_name} lives in {city} and works as a {current_title}, with {years_experience} of practice. Skills: {skills}. Speaks {languages}. Career: {jobs: {role} at {employer} (from {start_year})}.[ Reach them at {email}][ or {phone}].
        My name is {full_name}. I am a {current_title} from {city} and have worked for {years_experience}. I know {skills} and I speak {languages}.[ My mail is {email}.][ Call me on {phone}.] I was {jobs: {role} at {employer} since {start_year}}.""",
        "{full_name}, {current_title} from {city}.",
    ),
    parse_kind(
        "support_ticket",
        """
        ticket_id | code | Ticket; Ticket ID; Case; Case number
        requester | person | Requester; Opened by; Customer; Reported by
        email? | email | E-mail; Contact; Reply to
        product | product | Product; Device; Concerns
        subject | issue | Subject; Problem; Summary; Issue
        priority | enum(low=minor~not urgent,medium=normal,high=important~serious,urgent=critical~at once) | Priority; Urgency
        status | enum(open=new,pending=waiting,resolved=solved,closed=done) | Status; State
        opened_at | timestamp | Opened; Created; Opened at""",
        """{requester}[ ({email})] wrote about the {product}: "{subject}". The case got number {ticket_id} at {opened_at}, priority {priority}, and is {status}.
        Ticket {ticket_id} is {status}. {requester} says: {subject}. It concerns the {product}. Priority is {priority}. Opened {opened_at}.[ Answer to {email}.]""",
        "{requester} reports: {subject}.",
    ),
    parse_kind(
        "shipping_note",
        """
        tracking_number | code | Tracking number; Tracking; Parcel no.; Shipment
        carrier | company | Carrier; Shipped with; Courier
        recipient.name | person | Name; To
        recipient.address | address | Address; Street
        recipient | | Recipient; Ship to; Receiver
        sender | company | Sender; From; Shipper
        weight_kg | dec(0.1,60,1, kg,kg) | Weight; Gross weight; Mass
        ship_date | date | Shipped; Ship date; Sent on
        fragile | bool | Fragile; Handle with care
        delivery_date? | date | Expected delivery; Delivery date; Arrives""",
        """{sender} sent a parcel of {weight_kg} with {carrier} on {ship_date}. It goes to {recipient.name}, {recipient.address}. Tracking: {tracking_number}. {fragile?Handle with care.:Normal goods.}[ It should arrive on {delivery_date}.]
        Dear {recipient.name}, your shipment {tracking_number} from {sender} left us on {ship_date} with {carrier}[ and reaches you on {delivery_date}]. Weight {weight_kg}. We deliver to {recipient.address}. {fragile?The content breaks easily.:The content is robust.}""",
        "Parcel {tracking_number} to {recipient.name} with {carrier}.",
    ),
    parse_kind(
        "product_page",
        """
        name | product | Product; Name; Product name; Article
        brand | company | Brand; Made by; Maker; Manufacturer
        price | money | Price; Our price; Costs
        color? | color | Color; Colour
        weight_g? | int(20,9000,g,grams) | Weight; Weight (g)
        rating | rating | Rating; Customer rating; Score
        review_count | int(0,5000) | Reviews; Number of reviews
        in_stock | bool | In stock; Available
        features | list:phrase | Features; Highlights""",
        """The {name} by {brand} costs {price}.[ It comes in {color}][ and weighs {weight_g}]. Customers give it {rating} ({review_count} reviews). {in_stock?Ready to ship.:Sold out at the moment.} Highlights: {features}.
        New from {brand}: {name}[, {color}] for only {price}! Rated {rating} by {review_count} buyers. {in_stock?Available now.:Currently unavailable.}""",
        "{name} by {brand} for {price}.",
    ),
    parse_kind(
        "expense_report",
        """
        employee | person | Employee; Name; Submitted by; Claimant
        department | enum(sales,engineering=R&D,marketing,finance=accounting,support) | Department; Dept.; Unit
        trip_purpose | topic | Purpose; Reason; Purpose of trip
        expenses[].category | enum(meals=food,transport=taxi,lodging=hotel,other=misc) | Category; Kind
        expenses[].amount | dec(3,900,2) | Amount; Cost
        expenses[] | | Expenses; Costs; Receipts
        total | money | Total; Sum; Total claimed
        approved | bool | Approved; Accepted""",
        """{employee} from {department} claims {total} for {trip_purpose}: {expenses: {amount} for {category}}. {approved?The claim was approved.:The claim was not approved.}
        Expense claim of {employee} ({department}). Reason: {trip_purpose}. Receipts: {expenses: {category} {amount}}. Sum {total}. {approved?Approved.:Rejected.}""",
        "{employee} claims {total} for {trip_purpose}.",
    ),
    parse_kind(
        "meeting_minutes",
        """
        topic | topic | Topic; Subject; Meeting
        date | date | Date; Held on; Day
        start_time | time | Start; Time; Began at
        room? | phrase | Room; Place; Location
        chair | person | Chair; Led by; Chaired by
        attendees | list:person | Attendees; Present; Participants
        action_items[].owner | first | Owner; Who
        action_items[].task | sentence | Task; To do; What
        action_items[] | | Action items; Tasks; Follow-ups
        next_meeting? | date | Next meeting; Next date""",
        """{chair} led the meeting on {topic} on {date} at {start_time}[ in room {room}]. Present: {attendees}. Tasks: {action_items: {owner} - {task}}.[ We meet again on {next_meeting}.]
        Minutes, {date}, {start_time}: {topic}. Chair {chair}. {attendees} took part.[ Next time: {next_meeting}.]""",
        "Meeting on {topic}, {date}.",
    ),
    parse_kind(
        "insurance_claim",
        """
        claim_number | code | Claim number; Claim; Claim ID
        policy_number | code | Policy; Policy number; Policy no.
        insured | person | Insured; Policy holder; Claimant
        incident_date | date | Date of loss; Incident date; Happened on
        incident_type | enum(fire,theft=burglary~stolen goods,water=flooding,accident=collision,storm) | Type; Kind of loss; Cause
        damage_amount | money | Damage; Estimated damage; Loss
        police_report | bool | Police report; Reported to police
        description? | sentence | Description; Details; What happened""",
        """{insured} (policy {policy_number}) reports a loss through {incident_type} on {incident_date}. The damage is put at {damage_amount}. {police_report?The police were informed.:The police were not called.} We keep it as claim {claim_number}.[ Details: {description}]
        Claim {claim_number}: {incident_type}, {incident_date}. Insured person {insured}, policy {policy_number}, loss {damage_amount}.""",
        "Claim {claim_number}: {incident_type} loss of {damage_amount}.",
    ),
    parse_kind(
        "property_listing",
        """
        address | street | Address; Street; Where
        city | city | City; Town; Place
        property_type | enum(apartment=flat,house=detached house,studio,villa,office) | Type; Property type; Kind
        bedrooms | int(0,7) | Bedrooms; Beds; Number of bedrooms
        area_sqm | int(18,450,sqm,m2) | Area; Living area; Size
        price | money | Price; Asking price; Rent
        furnished | bool | Furnished; With furniture
        available_from? | date | Available from; Free from; Move-in
        agent_phone? | phone | Agent; Call; Phone""",
        """{property_type} for rent at {address} in {city}: {bedrooms} bedrooms on {area_sqm}, {price}. {furnished?It comes with furniture.:It is empty.}[ Free from {available_from}.][ Call {agent_phone}.]
        In {city}, {address}, we offer a {property_type} of {area_sqm} with {bedrooms} bedrooms. Price {price}. {furnished?Furnished.:Unfurnished.}[ Move in on {available_from}.]""",
        "{property_type} in {city} for {price}.",
    ),
    parse_kind(
        "stock_report",
        """
        ticker | code | Ticker; Symbol
        company | company | Company; Issuer; Name
        close_price | dec(1,900,2) | Close; Closing price; Last price
        change_percent | percent | Change; Day change; Up
        volume | int(1000,900000) | Volume; Shares traded
        date | date | Date; Trading day
        recommendation? | enum(buy,hold=keep,sell) | Advice; Recommendation; Our view""",
        """{company} ({ticker}) closed at {close_price} on {date}, a move of {change_percent}, with {volume} shares traded.[ Our advice: {recommendation}.]
        On {date}, {volume} shares of {company} changed hands. {ticker} ended at {close_price}, up {change_percent}.[ Analysts say {recommendation}.]""",
        "{company} closed at {close_price}.",
    ),
    parse_kind(
        "subscription",
        """
        subscriber | person | Subscriber; Member; Customer; Account holder
        email | email | E-mail; Login; Account
        plan | enum(free,basic=starter,pro=professional,enterprise=corporate) | Plan; Tier; Package
        price_per_month | dec(0,120,2) | Price per month; Monthly price; Monthly
        seats | int(1,200) | Seats; Users; Licences
        renewal_date | date | Renews on; Renewal date; Next billing
        cancelled | bool | Cancelled; Ended""",
        """{subscriber} ({email}) has the {plan} plan with {seats} seats for {price_per_month} a month. The next bill comes on {renewal_date}. {cancelled?The plan was cancelled.:The plan is running.}
        Hello {subscriber}, your {plan} package ({seats} users, {price_per_month} monthly) renews on {renewal_date}. Login: {email}. {cancelled?You have cancelled it.:It stays active.}""",
        "{subscriber} has the {plan} plan.",
    ),
    parse_kind(
        "warehouse_stock",
        """
        warehouse | city | Warehouse; Site; Depot
        checked_on | iso | Checked on; Count date; As of
        checked_by? | person | Checked by; Counted by
        stock[].sku | code | SKU; Code
        stock[].name | product | Name; Item
        stock[].quantity | int(0,2000) | Quantity; On hand; Stock
        stock[].location | code | Location; Bin; Shelf
        stock[] | | Stock; Articles; Inventory""",
        """Inventory of the {warehouse} depot on {checked_on}[, counted by {checked_by}]: {stock: {quantity} of {name} ({sku}) in {location}}.
        {warehouse}, {checked_on}. We hold {stock: {name}, code {sku}, {quantity} pieces, bin {location}}.[ Signed {checked_by}.]""",
        "Stock list of {warehouse}, {checked_on}.",
    ),
    parse_kind(
        "loan_application",
        """
        applicant.name | person | Name; Full name
        applicant.age | int(18,90) | Age; Years old
        applicant.income | int(12000,220000) | Income; Yearly income
        applicant | | Applicant; Borrower
        loan_amount | money | Loan amount; Amount requested; Requested
        term_months | int(6,360,months) | Term; Term in months; Runs for
        interest_rate | percent | Interest; Interest rate; Rate
        purpose | enum(car=vehicle,home=house,education=studies,business=company,other) | Purpose; For; Use
        decision? | enum(approved=granted,declined=refused,pending=open) | Decision; Outcome""",
        """{applicant.name}, {applicant.age} years old with an income of {applicant.income}, asks for {loan_amount} for {purpose} over {term_months} at {interest_rate}.[ Decision: {decision}.]
        Loan request: {loan_amount}, {term_months}, {interest_rate} interest, purpose {purpose}. Borrower {applicant.name} is {applicant.age} and earns {applicant.income}.[ The bank's decision is {decision}.]""",
        "{applicant.name} asks for {loan_amount}.",
    ),
    parse_kind(
        "restaurant_order",
        """
        table_number | int(1,60) | Table; Table number; Table no.
        waiter | first | Waiter; Served by; Server
        dishes[].name | dish | Dish; Name
        dishes[].quantity | int(1,6) | Quantity; Portions; Times
        dishes[].price | dec(4,45,2) | Price; Each
        dishes[] | | Dishes; Order; Food
        tip? | dec(0,20,2) | Tip; Gratuity
        takeaway | bool | Takeaway; To go""",
        """Table {table_number}, waiter {waiter}: {dishes: {quantity} {name} at {price}}. {takeaway?They take it with them.:They eat here.}[ Tip {tip}.]
        {waiter} brings {dishes: {quantity} x {name} ({price})} to table {table_number}.[ The guests left {tip} as a tip.] {takeaway?To go.:For here.}""",
        "Order of table {table_number}.",
    ),
    parse_kind(
        "press_release",
        """
        headline | phrase | Headline; Title
        organisation | company | Organisation; Company; Published by
        city | city | City; Dateline; Place
        date | date | Date; Released; Release date
        spokesperson.name | person | Name; Speaker
        spokesperson.role | job | Role; Function
        spokesperson | | Spokesperson; Press contact; Contact
        embargo | bool | Embargo; Under embargo""",
        """{city}, {date} - {organisation} announces: {headline}. "{headline} matters to us", said {spokesperson.name}, {spokesperson.role}. {embargo?Not for release yet.:For immediate release.}
        {headline}\\n{organisation} said on {date} in {city}. For questions ask {spokesperson.name} ({spokesperson.role}).""",
        "{organisation}: {headline}.",
    ),
    parse_kind(
        "payslip",
        """
        employee | person | Employee; Name; Paid to
        employee_id | code | Employee ID; Staff number; Personnel no.
        month | month | Month; Period; For
        gross_pay | money | Gross; Gross pay; Gross salary
        tax | money | Tax; Income tax; Deductions
        net_pay | money | Net; Net pay; Paid out
        bank_account? | token | Account; Bank account; IBAN""",
        """For {month}, {employee} (staff number {employee_id}) earned {gross_pay} before tax. After {tax} in tax, {net_pay} was paid out[ to account {bank_account}].
        {employee}, {employee_id}: {month} pay is {net_pay} net, {gross_pay} gross, {tax} tax.[ Sent to {bank_account}.]""",
        "Pay of {employee} for {month}.",
    ),
]
