"""Sessions on disk: the journal, the event log over it, and the folds that read it back."""
