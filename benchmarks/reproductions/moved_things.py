"""Stories in the manner of bAbI's task 3, "three supporting facts", for training where its training part is not at hand.

People walk, take things up and put them down; a question asks where a thing was before it was somewhere. Words, sentences
and questions are those of the task; how often each comes, and how many sentences stand before a question (49 on average, there
51), are set by eye after its test part, and are not the same.
"""

import math
import random

from data_pipelines.corpora.babi import StoryQuestion

PEOPLE = ("Daniel", "John", "Mary", "Sandra")
ROOMS = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
THINGS = ("apple", "football", "milk")
WALKS = ("journeyed to", "moved to", "travelled to", "went back to", "went to")
TAKES, DROPS = ("got", "grabbed", "picked up", "took"), ("discarded", "dropped", "left", "put down")
QUESTIONS = 5  # of a story
FIRST, SPREAD = 24, 0.8  # the median of the sentences before the first question, and how far the logarithms stray


class World:
    """Who is where, who holds what, and the rooms that each thing was in, as far as they were told."""

    def __init__(self, draw: random.Random):
        self.draw, self.told = draw, []
        self.room: dict[str, str] = {}
        self.holder: dict[str, str] = {}
        self.rooms: dict[str, list[str]] = {thing: [] for thing in THINGS}

    def go_on(self) -> None:
        """Tells one sentence more."""
        draw, who = self.draw, self.draw.choice(PEOPLE)
        held = [thing for thing in THINGS if self.holder.get(thing) == who]
        free = [t for t in THINGS if t not in self.holder and self.rooms[t][-1:] in ([], [self.room.get(who)])]
        chances = 6.0, 2.0 * bool(free), 2.4 * bool(held)
        act = draw.choices((self._walk, self._take, self._drop), chances)[0]
        self.told.append(f"{who} {act(who, held, free)}.")

    def _walk(self, who, held, free):
        self.room[who] = self.draw.choice([room for room in ROOMS if room != self.room.get(who)])
        for thing in held:
            self._note(thing, who)
        return f"{self.draw.choice(WALKS)} the {self.room[who]}"

    def _take(self, who, held, free):
        thing = self.draw.choice(free)
        self.holder[thing] = who
        self._note(thing, who)
        return f"{self.draw.choice(TAKES)} the {thing}{self._there()}"

    def _drop(self, who, held, free):
        thing = self.draw.choice(held)
        del self.holder[thing]
        return f"{self.draw.choice(DROPS)} the {thing}{self._there()}"

    def _there(self):
        return " there" if self.draw.random() < 0.2 else ""

    def _note(self, thing, who):
        room = self.room.get(who)
        if room is not None and self.rooms[thing][-1:] != [room]:
            self.rooms[thing].append(room)

    def ask(self) -> tuple[str, str] | None:
        """A question and its answer, mostly about the last room of a thing that lies somewhere; None if there is none."""
        draw, known = self.draw, [thing for thing in THINGS if len(self.rooms[thing]) > 1]
        lying = [thing for thing in known if thing not in self.holder]
        if not lying and (not known or draw.random() < 0.8):
            return None
        thing = draw.choice(lying if lying and draw.random() < 0.9 else known)
        rooms = self.rooms[thing]
        room = rooms[-1] if draw.random() < 0.8 else draw.choice(rooms[1:])
        last = max(place for place in range(1, len(rooms)) if rooms[place] == room)
        return f"Where was the {thing} before the {room}?", rooms[last - 1]


def story(draw: random.Random, longest: int) -> list[StoryQuestion]:
    """The questions of one story of at most `longest` sentences."""
    world, asked = World(draw), []
    due = max(5, min(round(draw.lognormvariate(math.log(FIRST), SPREAD)), longest - 2 * QUESTIONS))
    while len(asked) < QUESTIONS and len(world.told) < longest:
        world.go_on()
        if len(world.told) >= due and (found := world.ask()):
            asked.append(StoryQuestion(tuple(world.told), *found, (), "qa3", "made up"))
            due = len(world.told) + draw.randint(2, 12)
    return asked


def stories(count: int, seed: int, longest: int = 130) -> list[StoryQuestion]:
    """So many questions; a function of the seed."""
    draw, found = random.Random(seed), []
    while len(found) < count:
        found.extend(story(draw, longest))
    return found[:count]
