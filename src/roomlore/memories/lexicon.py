"""Word lists for the patterns that extract memories."""


def _alternatives(words: str) -> str:
    """Return words as the alternatives of a pattern, longer ones first.

    An entry of several words is written with "_".
    """
    return "|".join(sorted((word.replace("_", "[ -]?") for word in words.split()), key=len, reverse=True))


JOBS = _alternatives(
    "engineer developer programmer coder devops sysadmin administrator admin nurse doctor physician surgeon dentist vet"
    " veterinarian paramedic midwife therapist psychologist psychiatrist pharmacist teacher professor lecturer tutor"
    " librarian researcher scientist physicist chemist biologist mathematician economist statistician analyst"
    " accountant auditor lawyer attorney paralegal judge architect designer illustrator artist painter sculptor"
    " photographer journalist editor writer author translator interpreter musician composer singer actor actress"
    " dancer director producer chef cook baker barista waiter waitress bartender carpenter plumber electrician mechanic"
    " welder farmer gardener fisherman sailor pilot driver firefighter policeman detective soldier officer consultant"
    " freelancer contractor entrepreneur founder co_founder c[eft]o manager project_manager product_manager"
    " salesperson realtor broker banker trader marketer recruiter secretary receptionist assistant social_worker"
    " counselor counsellor coach trainer instructor hairdresser tailor cleaner caretaker security_guard cashier clerk"
    " butcher florist tester technician technologist data_scientist postdoc phd_candidate intern apprentice trustee"
    " treasurer chairperson chairman councillor mayor priest pastor imam rabbi monk nun cardiologist dermatologist"
    " radiologist pediatrician geologist historian archaeologist anthropologist linguist philosopher beekeeper"
)
RELATIVES = _alternatives(
    "kids? child children sons? daughters? brothers? sisters? siblings? twins? wife husband partner girlfriend"
    " boyfriend fianc\u00e9e? fiancee? spouse mother father mom mum dad parents? stepson stepdaughter stepmother"
    " stepfather grandmother grandfather grandma grandpa granny grandkids? grandchild grandchildren grandsons?"
    " granddaughters? uncles? aunts? cousins? nephews? nieces? son_in_law daughter_in_law mother_in_law father_in_law"
    " sister_in_law brother_in_law toddlers? teenagers? roommate flatmate"
)
ANIMALS = _alternatives(
    "dogs? puppy puppies cats? kittens? kitty rabbits? bunny bunnies hamsters? guinea_pigs? parrots? budgies? canary"
    " birds? horses? pony ponies goldfish snakes? tortoises? turtles? lizards? geckos? ferrets? hens chickens goats?"
    " sheep donkeys? greyhounds? labradors? poodles? terriers? beagles? huskies husky retrievers? shepherds? pets?"
    " aquarium"
)
CONDITIONS = _alternatives(
    "asthma diabetes diabetic epilepsy epileptic celiac coeliac coeliac_disease celiac_disease migraines arthritis adhd"
    " autism autistic dyslexia dyslexic colou?r_?blind lactose_intolerant gluten_intolerant left_handed deaf"
    " hard_of_hearing blind anemia eczema insomnia hypertension crohn's ibs scoliosis tinnitus hay_fever nut_allergy"
    " high_blood_pressure depression bipolar hemophilia"
)
DIETS = _alternatives(
    "vegan vegetarian pescatarian pescetarian flexitarian teetotal teetotaler keto kosher halal"
)
LANGUAGES = _alternatives(
    "english german french spanish italian portuguese dutch flemish finnish swedish norwegian danish icelandic estonian"
    " latvian lithuanian polish czech slovak hungarian romanian bulgarian serbian croatian slovene slovenian greek"
    " turkish arabic hebrew persian farsi urdu hindi bengali tamil telugu punjabi chinese mandarin cantonese japanese"
    " korean vietnamese thai indonesian malay tagalog swahili amharic zulu russian ukrainian belarusian irish welsh"
    " breton basque catalan galician latin esperanto albanian georgian armenian asl sign_language"
)
ZONES = _alternatives(
    "utc gmt cet cest eet eest wet bst ist est edt cst cdt mst mdt pst pdt akst hst jst kst sgt aest aedt nzst msk brt"
    " eastern_time pacific_time central_time mountain_time"
)
MONTHS = _alternatives(
    "january february march april may june july august september october november december jan feb mar apr jun jul aug"
    " sept? oct nov dec"
)
TOOLS = _alternatives(
    "editor text_editor ide shell os operating_system distro distribution browser keyboard_layout terminal window_manager"
)
BELONGINGS = _alternatives(
    "car bike bicycle motorbike motorcycle scooter boat van truck camper house flat apartment cottage farm garden"
    " laptop phone computer tablet camera guitar piano tv television licence license driving_licence driver's_license"
    " passport smartphone printer keyboard"
)
PASTIMES = _alternatives(
    "piano guitar bass drums? violin viola cello flute clarinet trumpet trombone saxophone sax harp accordion banjo"
    " ukulele organ oboe harmonica chess go football soccer basketball baseball volleyball handball hockey rugby"
    " cricket tennis badminton squash golf table_tennis ping_pong darts bridge poker d&d dungeons_and_dragons bagpipes"
)
#: Nuisances: "I love" before one of these words is irony.
NUISANCES = _alternatives(
    "waiting queueing queuing rebooting restarting reinstalling filling_in filling_out filling_forms paying commuting"
    " paperwork overtime mandatory deadlines? mondays? traffic downtime outages? on_call being_called being_woken"
    " working_at working_late working_nights working_weekends working_\\w+days? working_overtime debugging doing_taxes rebuilding"
)
#: Words after "I am allergic to" that make it a joke.
NO_ALLERGENS = _alternatives(
    "meetings? mondays? people work working stupidity nonsense drama effort exercise mornings responsibility commitment"
    " homework taxes money fun bugs javascript java php windows change rules bullshit small_talk"
)
#: Words after "I live in" or "I am from" that name no place.
NOT_A_PLACE = frozenset(
    """
    fear hope peace denial constant my your this that here there it bed pain misery work home scratch now
    today yesterday same old new what where which one me him her them his their our its some memory accident
    mistake what's experience all top front source behind
    """.split()
)
#: Words for a passing state.
MOMENTARY = frozenset(
    """
    not no ok okay fine good bad great better worse broken slow fast down up off on out dead back here there
    full empty late early ready done gone stuck busy open closed new old about because so very too really
    just still always never all in at over under getting going being coming today tomorrow tonight that this
    it what how when where why if as to from for with only like also probably actually basically definitely
    quite pretty almost nearly around currently now yet already awesome amazing terrible horrible crazy
    wrong right weird odd different same similar sure fucked borked screwed crap whatever maybe somebody
    someone later yours mine
    """.split()
)
TECHNICAL = _alternatives(
    "api apis rest graphql grpc database db sql schema postgres\\w* mysql sqlite redis kafka rabbitmq mongo\\w* cassandra"
    " elasticsearch pgvector qdrant neo4j queue cache caching cluster kubernetes k8s docker compose container terraform"
    " ansible aws azure gcp cloud servers? backend frontend front_end back_end python java javascript typescript rust go"
    " golang c\\+\\+ ruby php react vue angular svelte django flask fastapi rails node library libraries framework"
    " package module modules function class interface endpoint endpoints json yaml xml csv protobuf http https tls ssl"
    " oauth jwt auth authentication encryption hash index indexes embeddings? vectors? search tokens algorithm"
    " architecture microservices? monolith monorepo repo repos repository branch git github gitlab bazel cmake webpack"
    " ci cd pipeline linter ruff flake8 mypy pytest tests? test_suite stripe adyen payments? billing_code sphinx mkdocs"
    " linux ubuntu debian windows kernel driver drivers nginx apache hetzner host hosting dns cdn s3 storage backup"
    " backups logs logging metrics monitoring prometheus grafana migration migrations sessions? service services plugin"
    " plugins sdk cli gui ui header dark_theme theme font widget buttons? lcd battery batteries chip chips sensor"
    " rubber titanium plastic solar remote_control hardware firmware software code codebase compiler build builds"
    " feature flag flags webhook webhooks mqtt websocket websockets latency model models format file files support"
)
PROCESSES = _alternatives(
    "standups? stand_ups? meetings? sprints? retros? retrospectives? reviews? approvals? freeze calendar agenda minutes"
    " mondays? tuesdays? wednesdays? thursdays? fridays? saturdays? sundays? weekly daily monthly every week weeks month"
    " release_schedule deadline budget vote committee board workshop venue fair party lunch dinner trip holidays? hire"
    " hiring training policy conventional_commits trunk cleaning school commits"
)
#: Verbs of rules, as after "always" or "never".
ACTION_VERBS = _alternatives(
    "add allow apply ask assume avoid back backup bring build call change check close commit compare copy cover delete"
    " deploy disable document double_check edit enable escape ensure expose fix force_push format hard_code"
    " hardcode ignore import include install keep leave link lint lock log make measure merge mix mock move name open"
    " pass pin push put quote read rebase release remove rename reply report retry review rotate run sanitise sanitize"
    " save send set share sign split squash start store submit tag test trust update upload use validate verify"
    " wash write answer buy pay book feed label water close"
)
DELIVERY_VERBS = _alternatives(
    "send write prepare fix book order organi[sz]e schedule draft submit finish update review deploy publish call email"
    " contact buy bring pay handle arrange document implement migrate upload share post print reserve cook bake create"
    " file finali[sz]e complete deliver draw design translate merge set_up pick_up drop_off clean present invite"
)
