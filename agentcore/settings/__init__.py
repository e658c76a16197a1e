"""What the user wants, from all the files, variables and options that may say so: read, checked, put in order."""
