"""Written text to the words that people say, and to those that a recogniser knows."""

from mdi.spoken.sayable import sayable as sayable
from mdi.spoken.speller import Speller as Speller
from mdi.spoken.text import Spoken as Spoken
from mdi.spoken.text import kept as kept
from mdi.spoken.text import spoken_text as spoken_text
