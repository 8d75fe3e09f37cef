"""The native core: streams, host functions, the grammar executor and the matcher contract. Only importer of `_native`."""
