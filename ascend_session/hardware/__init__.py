"""What is on this machine: device nodes, the vendor's programs, who holds a device, versions."""
