"""Model vendors behind one port; SDKs are imported when first used."""
