"""One module a verb: its options (`add_arguments`) and a short handler (`run`)."""
