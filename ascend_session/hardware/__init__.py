"""Read this machine: device nodes, the vendor's programs, holders of devices, versions."""
