"""What the user of the conversations with the real model says: always the same notes and questions."""

import random

# As in the other parts, a word that `run` looks for in the logs.
SYSTEM = "You are the archivist of Marigold valley. Answer in one short sentence."
PLACES = ["Alder Ford", "Brackwater", "Corrin Heath", "Dunmere", "Eastlock", "Fennick", "Garrow Bridge", "Hollin", "Ismere", "Kettle Bay"]
GOODS = ["barley", "slate", "smoked eel", "linen", "lamp oil", "cider", "copper wire", "honey", "roof tiles", "goat cheese"]
PEOPLE = ["the miller", "a ferryman", "two sisters", "the schoolmaster", "an old surveyor", "the harbour clerk", "a travelling dentist"]
EVENTS = [
    "the bridge was closed for {n} days because of high water",
    "{who} bought {n} crates of {what} and sold half of them in {where}",
    "a fire burned {n} sheds, but the {what} was saved",
    "the council of {where} voted {n} to {m} for a new road",
    "{who} counted {n} swans on the lake near {where}",
    "the price of {what} rose from {m} to {n} shillings",
    "{who} wrote a letter of {m} pages about the school in {where}",
    "the winter market sold {what} for {n} shillings a load",
]
QUESTIONS = [
    "Which of these places would you visit first?",
    "What was sold there?",
    "How much did it cost?",
    "Who do you think was right?",
    "What should I write down about this?",
]


def user_text(turn):
    """What the user says in a turn: notes of 60 to 250 tokens, now and then only a question. Always the same."""
    rng = random.Random(turn)

    def fact():
        event = rng.choice(EVENTS).format(
            n=rng.randint(11, 99), m=rng.randint(2, 10), who=rng.choice(PEOPLE), what=rng.choice(GOODS), where=rng.choice(PLACES)
        )
        return f"In {rng.randint(1700, 1950)}, in {rng.choice(PLACES)}, {event}."

    notes = [] if turn % 5 == 4 else [f"Note {turn + 1} for the marigold archive.", *(fact() for _ in range(rng.randint(2, 9)))]
    return " ".join([*notes, rng.choice(QUESTIONS)])
