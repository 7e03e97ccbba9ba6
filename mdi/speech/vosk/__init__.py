"""Vosk: its model folders, decoding with libvosk, and what comes out of it."""
