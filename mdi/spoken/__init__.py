"""Written text to the words that people say."""

from mdi.spoken.sayable import sayable as sayable
